"""worker.context: what a task sees of its run."""

import json
import threading

import pytest

from django_leasequeue import clock
from django_leasequeue.exceptions import JobCancelled, JobRunAborted
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.running import Run, Running
from tests.claims import claimed, context_of


def test_it_tells_the_job():
    job = claimed(id=7, attempts=2, recoveries=1, claims=5, meta='{"tenant":"a"}')
    context = context_of(job)
    assert context.job_id == 7
    assert context.attempt == 3
    assert context.recoveries == 1
    assert context.fence == (7, 5)
    assert context.meta == {"tenant": "a"}
    assert context.deadline is None
    assert "job 7, attempt 3" in repr(context)


@pytest.mark.parametrize("form", ["event", "callable"])
def test_stopping_is_read_live(form):
    event = threading.Event()
    stopping = event if form == "event" else event.is_set
    context = JobContext(claimed(), None, stopping)
    assert context.stopping is False
    event.set()
    assert context.stopping is True


def test_check_passes_while_the_lease_is_ours():
    context = context_of(claimed())
    assert context.lease_lost is False
    assert context.check() is None


def test_check_raises_once_the_lease_is_lost():
    context = context_of(claimed(id=7))
    context.lose("another worker has claimed it since")
    assert context.lease_lost is True
    with pytest.raises(
        JobRunAborted, match="job 7 must stop: another worker"
    ) as caught:
        context.check()
    assert caught.value.job_id == 7


def test_a_lease_that_must_be_over_is_lost_though_nobody_could_tell(caplog):
    """As after a suspend, when the task's thread is the first to run."""
    job = claimed(lease=300, buffer=30)
    context, running = context_of(job), Running()
    running.add([Run(job, None, context)])
    job.renewed_at = clock.now() - 200
    assert context.lease_lost is False
    job.renewed_at = clock.now() - 271
    with pytest.raises(JobRunAborted, match="not be renewed in time"):
        context.check()
    # The run no longer counts, whatever is heard later.
    job.renewed_at = clock.now()
    assert context.lease_lost is True
    running.lose_overdue()
    running.lose_overdue()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_first_reason_stays():
    context = context_of(claimed())
    context.lose("first")
    context.lose("second")
    with pytest.raises(JobRunAborted, match="first"):
        context.check()


def test_a_cancel_is_seen_and_raised_by_check():
    context = context_of(claimed())
    context.check()
    context.cancel()
    assert context.cancel_requested
    with pytest.raises(JobCancelled, match="Job 41 is to be cancelled"):
        context.check()


def test_a_lost_lease_comes_before_a_cancel():
    """The job is another worker's by now, so its cancel is that worker's affair."""
    context = context_of(claimed())
    context.cancel()
    context.lose("taken")
    with pytest.raises(JobRunAborted):
        context.check()


def test_progress_is_handed_on_as_json():
    context, told = context_of(claimed()), []
    context.progress(1)  # nobody listens yet
    context.on_progress = told.append
    context.progress(1, 4, "rows")
    assert json.loads(told[0]) == {"done": 1, "total": 4, "text": "rows"}
    with pytest.raises(ValueError):
        context.progress(1, text="x" * 5000)
    with pytest.raises((TypeError, ValueError)):
        context.progress(float("nan"))
