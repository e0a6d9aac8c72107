"""A project whose default database is empty: nothing of the package asks for it."""

import subprocess
import sys

import pytest

from django_leasequeue.models import Job
from tests.helpers import DEADLINE, worker_environment
from tests.processes import ROOT
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])
routed = pytest.mark.parametrize("routed", ["0", "1"], ids=["named", "routed"])


def environment(routed):
    return {
        **worker_environment(),
        "DJANGO_SETTINGS_MODULE": "tests.settings_no_default",
        "LEASEQUEUE_TEST_ROUTED": routed,
    }


@routed
def test_verbs(routed):
    """Each verb works, by the alias or by a router."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.no_default"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(routed),
        timeout=2 * DEADLINE,
    )
    assert done.stdout == "done\n", done.stderr


@routed
def test_worker(routed, worker_process):
    """So does the worker, which is told the alias unless a router says it."""
    Job.objects.using("other").dispatch_many([add.spec(1, 2), add.spec(3, 4)])
    options = [] if routed == "1" else ["--database", "other"]
    worker = worker_process("--drain", *options, env=environment(routed))
    assert worker.wait() == 0
    results = Job.objects.using("other").order_by("id").values_list("result", flat=True)
    assert list(results) == [3, 7]
