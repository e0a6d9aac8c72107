"""Pruners that are killed in the middle, and what is left to others."""

import contextlib
import signal
import subprocess
import sys

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Duty, Job
from django_leasequeue.worker.pruner import Pruner
from tests.factories import JobFactory
from tests.helpers import eventually, worker_environment
from tests.processes import ROOT
from tests.road import table

DAY = 24 * 3600


@contextlib.contextmanager
def pruning_process():
    """Yield a process that has pruned one step and hangs in its second."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.pruning"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=worker_environment(),
    )
    with process:
        try:
            assert process.stdout.readline() == "deleted\n"
            yield process
        finally:
            process.kill()


def old(count):
    for _ in range(count):
        JobFactory(succeeded=True, finished_at=DatabaseNow(-2 * DAY))


def test_166_a_pruner_that_is_killed_leaves_nothing_half_done():
    """Case 166: a step is done or not, the next pruner goes on from there.

    It has to wait for the end of the duty's lease, which nobody else may take before.
    """
    old(12)
    with pruning_process() as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    # Five are gone for good; the step at hand is undone once the server notices.
    eventually(lambda: Job.objects.count() == 7)
    left = table()
    other = Pruner("default", "host:1")
    other._look()
    assert table() == left
    assert Duty.objects.update(held_until=DatabaseNow(-1)) == 1

    def taken_over():
        # Until the server has let go of the dead one's locks they are passed over.
        Duty.objects.update(due_at=DatabaseNow(-1))
        other._look()
        return not table()

    eventually(taken_over)
