"""worker.exits: the end of a process at once."""

import subprocess
import sys

from tests.processes import ROOT

PROGRAM = """
import os, sys, threading
from django_leasequeue.worker import exits

print("kept", end="")
{before}
threading.Thread(target=threading.Event().wait).start()
exits.at_once(7)
"""


def end(before=""):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_what_is_printed_is_kept_and_nothing_else_awaited():
    ended = end()
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "kept", "")


def test_output_that_nobody_takes_keeps_no_process_alive():
    """A copy of a worker, or one whose jobs don't end, would hang."""
    assert end("os.close(sys.stdout.fileno()); sys.stderr = None").returncode == 7
