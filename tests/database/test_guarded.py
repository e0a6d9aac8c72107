"""Every write of a worker names its token: a stale one changes nothing, whatever the verb."""

import uuid

import pytest
from django.db import connection, transaction

from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import JobRunAborted
from django_leasequeue.models import Job, Step
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.states import Status
from django_leasequeue.transitions.settle import Verdict
from tests.factories import JobFactory
from tests.road import claim, row
from tests.token_guard import UnguardedWrite, guarded, problem

SPENT = {"round": 1, "seconds": 1, "attempt": 1}
ERROR = {"exception_class": "builtins.ValueError", "message": "no", "at": "now"}
OUTCOMES = [
    Succeeded("1"),
    Failed(ERROR),
    RetryLater(0, ERROR),
    Snoozed(0),
    Cancelled(),
    Released(),
    Released(lost=True),
]


def record_step(job, first):
    """Return what the verbs return that have nothing to say."""
    try:
        return Job.objects.record_step(job, "a", "1", 0.5, first=first)
    except JobRunAborted:
        return False


VERBS = {
    "renew": lambda job: Job.objects.renew(job.token),
    "give back": lambda job: Job.objects.release(job.token),
    "give back one": lambda job: Job.objects.release(job.token, [job.id]),
    "tell progress": lambda job: Job.objects.progress(job, "1"),
    "record a step": lambda job: record_step(job, first=False),
    "record a run's first step": lambda job: record_step(job, first=True),
    "tell a death": lambda job: Job.objects.release(job.token, death="killed"),
    **{
        f"settle {outcome}": (
            lambda job, outcome=outcome: Job.objects.settle([(job, outcome)])
        )
        for outcome in OUTCOMES
    },
}


@pytest.fixture(autouse=True)
def guard():
    with guarded():
        yield


@pytest.fixture(params=["claimed by another", "past", "within the buffer"])
def stale(request):
    """A job as its former holder knows it."""
    JobFactory()
    [job] = claim()
    rows = Job.objects.filter(pk=job.id, processing_token=job.token)
    if request.param == "claimed by another":
        rows.update(processing_token=uuid.uuid4(), claims=2, worker="another:1")
    elif request.param == "past":
        rows.update(processing_until=DatabaseNow(-1))
    else:
        rows.update(processing_until=DatabaseNow(29))
    return job


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_token_changes_nothing(stale, verb):
    """Zero rows, and the answer says so."""
    before = row(stale)
    answer = VERBS[verb](stale)
    assert row(stale) == before
    assert not Step.objects.exists()
    match answer:
        case [settled]:
            assert settled.verdict is Verdict.LOST
            assert settled.holder == before["worker"]
        case set() | bool():
            assert not answer
        case _:
            assert answer.renewed == set()


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_names_the_token(verb):
    """Of a lease that is held each write comes through under the guard."""
    JobFactory()
    [job] = claim()
    # Else the same millisecond might renew it to the end that it has.
    mine = Job.objects.filter(pk=job.id, processing_token=job.token)
    mine.update(processing_until=DatabaseNow(200))
    before = row(job)
    VERBS[verb](job)
    assert row(job) != before or Step.objects.exists()
    assert before["status"] == Status.RUNNING


def test_the_guard_refuses_what_it_is_for():
    """A write that names no token is refused before it is sent."""
    job = JobFactory(leased=True)
    for write in (
        lambda: Job.objects.filter(pk=job.pk).update(status=Status.SUCCEEDED),
        lambda: Job.objects.filter(status=Status.RUNNING).update(worker="x"),
        lambda: Job.objects.filter(pk=job.pk).delete(),
        lambda: job.save(),
        lambda: job.steps.create(name="a", recorded_at=DatabaseNow(), **SPENT),
        lambda: job.steps.filter(round=1).update(result=2),
        lambda: job.steps.all().delete(),
    ):
        with pytest.raises(UnguardedWrite), transaction.atomic():
            write()
    assert row(job)["worker"] == "another worker"


def test_the_guard_lets_through_what_harms_nobody():
    """Claims name pending rows, pruners final ones; other tables are no affair of it."""
    pending = JobFactory()
    Job.objects.filter(pk=pending.pk, status=Status.PENDING).update(priority=1)
    Job.objects.filter(status__in=["failed", "succeeded"]).update(priority=1)
    assert problem("UPDATE leasequeue_worker SET pid = 1", ()) is None
    assert problem("SELECT 1 FROM leasequeue_job", ()) is None
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
