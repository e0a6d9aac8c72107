"""Callbacks in real workers: of jobs that kill them, at a stop, in a drain."""

import signal
from pathlib import Path

import pytest

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import hooked
from tests.helpers import DEADLINE
from tests.hooked import SETTINGS
from tests.road import row


@pytest.fixture(autouse=True)
def known(settings):
    settings.LEASEQUEUE = SETTINGS


@pytest.fixture
def worker(worker_process):
    """Start a real worker that knows the tasks of tests.hooked, and kills no slow child."""
    patient = {"LEASEQUEUE_TEST_GRACE": f"{DEADLINE}"}
    return lambda *arguments: worker_process(*arguments, settings=SETTINGS, env=patient)


def test_a_stop_waits_for_callbacks(worker, announcement):
    job = hooked.succeed.dispatch(announcement.path).job
    process = worker()
    assert announcement.wait() == "called"
    assert row(job)["status"] == Status.SUCCEEDED
    process.send(signal.SIGTERM)
    process.wait_for("takes no more jobs")
    assert process.is_running
    announcement.release()
    assert process.wait() == 0
    assert announcement.wait() == "over"


def test_a_stop_waits_no_longer_than_its_timeout(worker, announcement):
    hooked.succeed.dispatch(announcement.path)
    process = worker("--shutdown-timeout=0")
    assert announcement.wait() == "called"
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert announcement.is_silent()
    assert "callbacks have not ended in time: those of job" in process.output


@pytest.mark.parametrize("where", ["--in-process", "--processes=1"])
def test_a_stop_ends_a_coroutine_that_is_no_job(worker, announcement, where):
    """Python waits at its exit for the thread in which an `async def` callback hangs."""
    hooked.succeed_for_ever.dispatch(announcement.path)
    process = worker("--shutdown-timeout=0", where)
    pid = int(announcement.wait())
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert "callbacks have not ended in time: those of job" in process.output
    assert "is killed" not in process.output
    assert not Path(f"/proc/{pid}").exists()


def test_062_a_drain_runs_what_a_callback_dispatches_and_calls_on_failure(
    worker, announcement
):
    """Of the job that killed its process, once, in the process that fails it."""
    hooked.succeed_for_another.dispatch(announcement.path)
    assert worker("--drain").wait() == 1
    assert announcement.wait() == "succeeded "
    assert announcement.wait() == "failed WorkersLost"
    assert announcement.is_silent()
    done, killed = Job.objects.order_by("pk")
    assert (done.status, killed.status) == (Status.SUCCEEDED, Status.FAILED)
    assert (killed.claims, killed.attempts) == (2, 0)
