"""worker.vital: no process goes on without a thread that it needs."""

import subprocess
import sys

import pytest

from tests.processes import ROOT

PROGRAM = """
import sys, threading
from django_leasequeue.worker.vital import vital_thread

def fail(error):
    raise error

vital_thread(fail, {error}, name="leasequeue-keeper").start()
threading.Event().wait()
"""


@pytest.mark.parametrize("error", ["ValueError('broken')", "SystemExit(0)"])
def test_a_process_ends_with_a_thread_that_it_needs(error):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(error=error)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 70
    assert "leasequeue-keeper failed" in ended.stderr
    assert error.partition("(")[0] in ended.stderr
