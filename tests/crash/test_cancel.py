"""Jobs that are cancelled while a real worker runs them."""

import pytest

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import tasks, worker_tasks
from tests.helpers import eventually
from tests.road import row
from tests.workers import SETTINGS, with_worker_tasks


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


@pytest.fixture
def running(worker_process, announcement):
    """Start a worker on a job that waits for its cancel; return the job."""

    def start(heed, *arguments):
        job = worker_tasks.wait_for_a_cancel.dispatch(announcement.path, heed).job
        worker_process("--threads=1", *arguments, settings=SETTINGS)
        announcement.wait()
        return job

    return start


@pytest.mark.parametrize("mode", [[], ["--in-process"]], ids=["children", "in-process"])
def test_case_090_a_cancel_reaches_the_running_job(running, mode):
    """From another process, with every thread of the worker taken."""
    job = running(True, *mode)
    assert Job.objects.filter(pk=job.pk).cancel().requested == {job.pk}
    eventually(lambda: row(job)["status"] == Status.CANCELLED)
    values = row(job)
    assert (values["attempts"], values["errors"]) == (0, [])
    assert values["processing_token"] is None


def test_case_090_a_job_that_does_not_heed_it_ends_by_itself(running):
    job = running(False)
    Job.objects.filter(pk=job.pk).cancel()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert row(job)["result"] == "finished all the same"


def test_the_worker_goes_on_after_a_cancel(running):
    job = running(True)
    Job.objects.filter(pk=job.pk).cancel()
    after = tasks.add.dispatch(1, 2).job
    eventually(lambda: row(after)["status"] == Status.SUCCEEDED)
    assert row(job)["status"] == Status.CANCELLED
