"""Cancel: pending jobs at once, running ones by request, finished ones never."""

from datetime import timedelta
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, Released, RetryLater, Snoozed, Succeeded
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status
from tests.factories import JobFactory
from tests.tasks import add

ERROR = {"exception_class": "builtins.ValueError", "message": "as asked"}


def claim_one():
    claimed = Job.objects.claim(Selection(), 1, uuid4(), "a worker").jobs
    assert len(claimed) == 1
    return claimed[0]


@pytest.fixture
def asked(django_capture_on_commit_callbacks):
    """A running job that was asked to stop."""
    JobFactory()
    job = claim_one()
    with django_capture_on_commit_callbacks(execute=True):
        done = Job.objects.filter(pk=job.id).cancel()
    assert done.requested == {job.id}
    return job


def test_pending_job_is_cancelled_at_once():
    job = JobFactory()
    done = Job.objects.filter(pk=job.pk).cancel()
    job.refresh_from_db()
    assert done.cancelled == {job.pk}
    assert job.status == Status.CANCELLED
    assert job.finished_at is not None


def test_one_job_by_its_instance(django_capture_on_commit_callbacks):
    """The instance is then as the row is; what has ended stays as it is."""
    job, ended, other = JobFactory(), JobFactory(succeeded=True), JobFactory()
    assert job.cancel() is True
    assert (job.status, job.is_final) == (Status.CANCELLED, True)
    assert job.cancel() is False
    assert ended.cancel() is False
    assert ended.status == Status.SUCCEEDED
    assert async_to_sync(other.acancel)() is True
    assert job.cancel.alters_data and job.acancel.alters_data
    running = JobFactory(leased=True)
    with django_capture_on_commit_callbacks(execute=True):
        assert running.cancel() is True
    running.refresh_from_db()
    assert running.cancel_requested_at is not None
    pk = other.pk
    Job.objects.filter(pk=pk).delete()
    assert other.cancel() is False
    assert other.pk == pk


def test_pending_job_gives_up_its_dedup_id():
    job = add.using(dedup="k").dispatch(1, 2).job
    Job.objects.filter(pk=job.pk).cancel()
    again = add.using(dedup="k").dispatch(1, 2)
    assert again.outcome == "added"
    job.refresh_from_db()
    assert (job.dedup_id, job.released_dedup_id) == (None, "k")


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_finished_job_stays_as_it_is(state):
    job = JobFactory(**{state: True})
    before = Job.objects.filter(pk=job.pk).values().get()
    done = Job.objects.filter(pk=job.pk).cancel()
    assert done.unchanged == {job.pk}
    assert Job.objects.filter(pk=job.pk).values().get() == before


def test_running_job_is_only_asked(asked):
    job = Job.objects.get(pk=asked.id)
    assert job.status == Status.RUNNING
    assert job.processing_token == asked.token
    assert job.cancel_requested_at is not None


def test_request_is_written_when_the_caller_commits(django_capture_on_commit_callbacks):
    """A slow caller must not hold the row of a running job."""
    job = JobFactory(leased=True)
    with django_capture_on_commit_callbacks() as callbacks, transaction.atomic():
        Job.objects.filter(pk=job.pk).cancel()
    job.refresh_from_db()
    assert job.cancel_requested_at is None
    for callback in callbacks:
        callback()
    job.refresh_from_db()
    assert job.cancel_requested_at is not None


@pytest.mark.parametrize(
    "outcome",
    [RetryLater(timedelta(0), ERROR), Snoozed(timedelta(0)), Released()],
    ids=lambda outcome: type(outcome).__name__,
)
def test_asked_job_does_not_go_back_to_pending(asked, outcome):
    Job.objects.settle([(asked, outcome)])
    job = Job.objects.get(pk=asked.id)
    assert job.status == Status.CANCELLED
    assert job.processing_token is None
    assert len(job.errors) == isinstance(outcome, RetryLater)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [(Succeeded("3"), Status.SUCCEEDED), (Failed(ERROR), Status.FAILED)],
)
def test_a_run_that_ends_by_itself_keeps_its_outcome(asked, outcome, status):
    Job.objects.settle([(asked, outcome)])
    assert Job.objects.get(pk=asked.id).status == status


def test_asked_job_is_not_recovered(asked):
    Job.objects.update(processing_until=DatabaseNow(-1))
    claimed = Job.objects.claim(Selection(), 10, uuid4(), "another").jobs
    job = Job.objects.get(pk=asked.id)
    assert claimed == []
    assert job.status == Status.CANCELLED
    assert "lease ended" in job.errors[-1]["message"]


def test_asked_job_is_not_given_back(asked):
    assert Job.objects.release(asked.token) == {asked.id}
    assert Job.objects.get(pk=asked.id).status == Status.CANCELLED


def test_cancel_is_a_verb_of_a_chosen_set_of_jobs():
    """Job.objects.cancel() would be all jobs, by mistake."""
    assert not hasattr(Job.objects, "cancel")


@pytest.mark.parametrize(
    "chosen",
    [{"pk__in": []}, {"group": "a"}, {"task": add.name}, {"queue": "mail"}],
    ids=["id", "group", "task", "queue"],
)
def test_what_is_chosen_and_nothing_else(chosen):
    mine = JobFactory(group="a", task=add.name, queue="mail")
    other = JobFactory(group="b", task="tests.tasks.fail", queue="slow")
    if "pk__in" in chosen:
        chosen = {"pk__in": [mine.pk]}
    assert Job.objects.filter(**chosen).cancel().cancelled == {mine.pk}
    other.refresh_from_db()
    assert other.status == Status.PENDING


def test_in_async_code():
    job = JobFactory()
    done = async_to_sync(Job.objects.filter(pk=job.pk).acancel)()
    assert done.cancelled == {job.pk}


@pytest.mark.parametrize("again", [False, True], ids=["waits", "runs again"])
def test_a_job_that_waits_again_before_it_is_asked(
    again, django_capture_on_commit_callbacks
):
    """Its run has ended in a retry since it was seen running, and nobody was asked."""
    JobFactory(max_attempts=3)
    job = claim_one()
    with django_capture_on_commit_callbacks() as callbacks:
        assert Job.objects.filter(pk=job.id).cancel().requested == {job.id}
    Job.objects.settle([(job, RetryLater(timedelta(0), ERROR))])
    if again:
        claim_one()
    for callback in callbacks:
        callback()
    after = Job.objects.get(pk=job.id)
    assert after.status == (Status.RUNNING if again else Status.CANCELLED)
    assert again is (after.cancel_requested_at is not None)


def test_one_call_tells_each_kind_apart():
    pending, running = JobFactory(), JobFactory(leased=True)
    failed = JobFactory(failed=True)
    done = Job.objects.all().cancel()
    assert done == ({pending.pk}, {running.pk}, set(), {failed.pk}, set())
