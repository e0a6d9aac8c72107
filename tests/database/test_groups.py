"""Jobs that wait for a group: which start when, and that nothing else pays for it."""

import datetime as dt

import pytest
from django.db import connection, transaction

from django_leasequeue import JobSpec
from django_leasequeue.models import GroupWait, Job
from django_leasequeue.outcomes import Failed, RetryLater, Succeeded
from django_leasequeue.states import AWAITS_GROUP
from django_leasequeue.transitions import groups
from django_leasequeue.transitions.groups import Looked, Seen
from tests.factories import JobFactory
from tests.road import claim, ids, locked, row, statements
from tests.tasks import add
from tests.token_guard import guarded

pytestmark = pytest.mark.django_db(transaction=True)

ERROR = {"message": "as asked"}
FAILED = Failed(ERROR)
MINUTE = dt.timedelta(minutes=1)


def member(**fields):
    return JobFactory(group="g", **fields)


def after(done="g", **options):
    return add.using(after_group=done, **options).dispatch(1, 2).job


def look(seen=None):
    with guarded():
        return Job.objects.start_after_groups(seen)


def may_start(job):
    """Whether it was started, with nothing left of its wait."""
    blocked, waits = row(job)["blocked"], GroupWait.objects.filter(pk=job.pk).exists()
    assert waits or not blocked
    return not blocked


def test_it_is_claimed_once_the_last_job_has_ended():
    [first, second], job = JobFactory.create_batch(2, group="g"), after()
    assert row(job)["blocked"] == AWAITS_GROUP
    assert Job.objects.get(pk=job.pk).after_group == job.after_group == "g"
    held = claim()
    assert ids(held) == [first.pk, second.pk]
    Job.objects.settle([(held[0], Succeeded())])
    assert look() == Looked(0, others_wait=True)
    assert claim() == []
    Job.objects.settle([(held[1], FAILED)])
    assert look() == Looked(1, others_wait=False)
    assert ids(claim()) == [job.pk]
    assert may_start(job)
    assert look() == Looked(0, others_wait=False)


@pytest.mark.parametrize(
    "traits", [{}, {"scheduled": True}, {"blocked": 1}, {"leased": True}]
)
def test_whatever_is_not_final_is_waited_for(traits):
    member(**traits)
    job = after()
    look()
    assert not may_start(job)


@pytest.mark.parametrize("traits", ["succeeded", "failed", "cancelled"])
def test_what_has_ended_is_not(traits):
    """A group that is done already, or has no jobs, is looked at by the dispatch itself."""
    member(**{traits: True})
    JobFactory(group="G")
    assert may_start(after())
    assert may_start(after("none"))


def test_a_failed_attempt_is_no_end():
    member(max_attempts=2)
    job = after()
    [held] = claim()
    Job.objects.settle([(held, RetryLater(MINUTE, ERROR))])
    look()
    assert not may_start(job)


def test_a_job_that_is_added_while_others_run_is_waited_for():
    member()
    job = after()
    [held] = claim()
    added = member()
    Job.objects.settle([(held, Succeeded())])
    look()
    assert not may_start(job)
    Job.objects.filter(pk=added.pk).cancel()
    assert may_start(job)


def test_one_that_is_run_again_before_the_others_have_ended_is_waited_for():
    ended, other = member(succeeded=True), member()
    job = after()
    Job.objects.filter(pk=ended.pk).retry()
    Job.objects.filter(pk=other.pk).cancel()
    assert not may_start(job)


def test_afterwards_it_does_not_start_again():
    """Once for each dispatch, whatever is added to the group later."""
    member(succeeded=True)
    job = after()
    [held] = claim()
    Job.objects.settle([(held, Succeeded())])
    added = member()
    again = after()
    Job.objects.filter(pk=added.pk).cancel()
    assert may_start(again)
    assert row(job)["status"] == "succeeded"


def test_a_removed_job_is_not_waited_for():
    gone = member()
    job = after()
    Job.objects.filter(pk=gone.pk).delete()
    assert look().started == 1
    assert may_start(job)


def test_in_a_transaction_it_waits_for_what_is_dispatched_beside_it():
    with transaction.atomic():
        job = after()
        other = add.using(group="g").dispatch(1, 2).job
    assert not may_start(job)
    with transaction.atomic():
        Job.objects.filter(pk=other.pk).cancel()
        assert not may_start(job)
    assert may_start(job)


def test_a_rollback_leaves_nothing():
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        after()
        raise ZeroDivisionError
    assert not Job.objects.exists()
    assert not GroupWait.objects.exists()


def test_it_may_be_of_a_group_itself():
    """So that a third step waits for the second, which waits for the first."""
    first = member()
    second, third = after(group="h"), after("h")
    Job.objects.filter(pk=first.pk).cancel()
    assert may_start(second)
    assert not may_start(third)
    Job.objects.filter(pk=second.pk).cancel()
    assert may_start(third)


def test_many_at_once(monkeypatch):
    monkeypatch.setattr(groups, "ROWS", 2)
    monkeypatch.setattr(groups, "GROUPS", 2)
    others = [JobFactory(group=f"g{number}") for number in range(5)]
    jobs = Job.objects.dispatch_many(
        JobSpec(add, [1, 2], dedup=f"k{copy}-{number}", after_group=f"g{number}")
        for number in range(5)
        for copy in range(3)
    )
    assert GroupWait.objects.count() == 15
    Job.objects.filter(pk__in=ids(others)).update(
        status="succeeded", finished_at=groups.db.DatabaseNow()
    )
    seen, started = Seen(), []
    for _ in range(4):
        started.append(look(seen).started)
    assert sum(started) == 15
    assert all(may_start(dispatch.job) for dispatch in jobs)


def test_a_dispatch_that_another_answers_waits_for_nothing():
    member()
    job = add.using(dedup="k").dispatch(1, 2).job
    same, outcome = add.using(dedup="k", after_group="g").dispatch(1, 2)
    assert (same.pk, outcome) == (job.pk, "skipped")
    assert may_start(job)
    waiting = add.using(dedup="l", after_group="g").dispatch(1, 2).job
    assert add.using(dedup="l", after_group="g").dispatch(1, 2).job.pk == waiting.pk
    assert not may_start(waiting)


def test_a_cancelled_one_that_is_run_again_by_hand_waits_no_more():
    other, job = member(), after()
    Job.objects.filter(pk=job.pk).cancel()
    assert row(job)["blocked"] == 0
    Job.objects.filter(pk=job.pk).retry()
    assert ids(claim()) == [other.pk, job.pk]
    Job.objects.filter(pk=other.pk).delete()
    assert look() == Looked(0, others_wait=False)
    assert may_start(job)


def test_a_removed_one_leaves_no_wait():
    member()
    job, other = after(), after()
    Job.objects.filter(pk=job.pk).delete()
    Job.objects.filter(pk=other.pk)._raw_delete("default")
    assert list(GroupWait.objects.values_list("pk", flat=True)) == [other.pk]
    Job.objects.all().delete()
    look()
    assert not GroupWait.objects.exists()


def test_a_locked_one_is_started_by_the_next_look():
    if not connection.features.has_select_for_update:
        pytest.skip("one lock for the whole file")
    other = member()
    held, free = after(), after()
    with locked([held]):
        Job.objects.filter(pk=other.pk).cancel()
        assert not may_start(held)
        assert may_start(free)
    assert look() == Looked(1, others_wait=False)


def test_what_it_costs():
    """A settle nothing at all, a look at nothing one statement, and at a group two more."""
    member()
    [held] = claim()
    with statements() as with_group:
        Job.objects.settle([(held, Succeeded())])
    JobFactory()
    [held] = claim()
    with statements() as without:
        Job.objects.settle([(held, Succeeded())])
    assert len(with_group) == len(without)
    assert not [sql for sql in with_group if "groupwait" in sql]
    with statements() as sent:
        look()
    assert len(sent) == 1
    JobFactory.create_batch(3, group="g")
    after()
    seen = Seen()
    look(seen)
    with statements() as sent:
        look(seen)
    assert len(sent) == 2


def test_a_wait_for_its_own_group_is_refused():
    with pytest.raises(ValueError, match="it would wait for itself"):
        add.using(group="g", after_group="g").dispatch(1, 2)
    for wrong in ("", "x" * 256, "a\0b"):
        with pytest.raises(ValueError, match="after_group"):
            add.using(after_group=wrong).dispatch(1, 2)
