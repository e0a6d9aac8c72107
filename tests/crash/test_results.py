"""Waiting for a job that a real worker runs."""

from asgiref.sync import async_to_sync

from tests import tasks
from tests.helpers import DEADLINE
from tests.workers import SETTINGS


def test_results_of_a_worker_in_another_process(worker_process):
    job, other = (tasks.add.dispatch(number, 2).job for number in (1, 2))
    worker_process("--in-process", settings=SETTINGS)
    assert job.wait(DEADLINE) == 3
    assert async_to_sync(other.await_result)(DEADLINE) == 4
