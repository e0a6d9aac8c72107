"""Retry by hand: finished jobs begin a new round, others stay exactly as they are."""

import datetime as dt

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_leasequeue import Dedup
from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import RetryRefused
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed
from django_leasequeue.states import Status
from django_leasequeue.transitions import retry as retrying
from tests.factories import JobFactory
from tests.road import claim, row, table, toy
from tests.tasks import add

STATES = ["succeeded", "failed", "cancelled"]
QUEUED = {"task": add.name, "dedup_hold": "finished"}
# What a retry changes, and nothing else of the row.
CHANGED = {
    "status",
    "round",
    "attempts",
    "recoveries",
    "lost_alone",
    "suspect",
    "result",
    "progress",
    "run_at",
    "finished_at",
    "cancel_requested_at",
    "events",
}


def chosen(*jobs):
    return Job.objects.filter(pk__in=[job.pk for job in jobs])


def parts(done):
    """What a Retrial says, without what is empty."""
    return {kind: ids for kind, ids in done._asdict().items() if ids}


def taken_over(state="failed", hold="finished"):
    """A finished job that has lost its id to a newer one: returns both."""
    old = JobFactory(**{state: True}, **QUEUED, released_dedup_id="k")
    return old, JobFactory(task=add.name, dedup_id="k", dedup_hold=hold)


@pytest.mark.parametrize("state", STATES)
def test_a_finished_job_begins_a_new_round(state):
    """History stays: errors, workers, claims, when it was made and first started."""
    job = JobFactory(
        **{state: True},
        recoveries=2,
        lost_alone=1,
        suspect=1,
        attempts=3,
        progress={"done": 1},
        run_at=DatabaseNow(-600),
        worker="host:1",
        worker_ids="host:1",
    )
    before = row(job)
    assert parts(chosen(job).retry()) == {"retried": {job.pk}}
    after = row(job)
    assert {name for name in after if after[name] != before[name]} <= CHANGED
    assert after["status"] == Status.PENDING
    assert after["round"] == before["round"] + 1
    fresh = ["attempts", "recoveries", "lost_alone", "suspect"]
    assert [after[name] for name in fresh] == [0] * 4
    empty = ["result", "progress", "finished_at", "cancel_requested_at"]
    assert [after[name] for name in empty] == [None] * 4
    assert after["run_at"] > before["finished_at"] - dt.timedelta(seconds=1)
    (again,) = claim()
    assert (again.id, again.round, again.attempts) == (job.pk, 2, 0)


def test_its_attempts_count_anew():
    with toy(lambda: None, name="tests.twice", max_attempts=2) as task:
        job = task.dispatch().job
    for number in (1, 2):
        (held,) = claim()
        assert (held.round, held.max_attempts) == (number, 2)
        Job.objects.settle([(held, Failed({"message": f"of round {number}"}))])
        job.retry() if number == 1 else None
    job.refresh_from_db()
    assert [entry["message"] for entry in job.errors] == ["of round 1", "of round 2"]
    assert (job.attempts, job.status) == (1, Status.FAILED)


@pytest.mark.parametrize("state", ["pending", "leased", "expired", "rerun"])
def test_what_has_not_finished_stays(state):
    """Case 176: a running job is not reset."""
    traits = {
        "pending": {},
        "leased": {"leased": True},
        "expired": {"expired": True},
        "rerun": {"leased": True, "rerun": True},
    }
    job = JobFactory(**traits[state])
    before = row(job)
    assert parts(chosen(job).retry()) == {"unfinished": {job.pk}}
    assert row(job) == before
    with pytest.raises(RetryRefused, match="it has not finished"):
        job.retry()


def test_one_call_tells_each_kind_apart():
    """Case 176: running, waiting, done and failed chosen together, and pressed twice."""
    waits, runs = JobFactory(), JobFactory(leased=True)
    done, failed = JobFactory(succeeded=True), JobFactory(failed=True)
    old, new = taken_over()
    first = chosen(waits, runs, done, failed, old).retry()
    assert parts(first) == {
        "retried": {done.pk, failed.pk},
        "unfinished": {waits.pk, runs.pk},
        "conflicts": {old.pk: new.pk},
    }
    again = chosen(waits, runs, done, failed, old).retry()
    assert parts(again) == {
        "unfinished": {waits.pk, runs.pk, done.pk, failed.pk},
        "conflicts": {old.pk: new.pk},
    }
    assert row(done)["round"] == 2


def test_many(monkeypatch):
    monkeypatch.setattr(retrying, "ROWS", 2)
    jobs = [JobFactory(failed=True) for _ in range(5)]
    lost = [JobFactory(failed=True, released_dedup_id=f"k{n}") for n in range(3)]
    done = Job.objects.finished().retry()
    assert parts(done) == {"retried": {job.pk for job in [*jobs, *lost]}}
    assert Job.objects.pending().count() == 8


def test_a_slice_is_a_choice():
    jobs = [JobFactory(failed=True) for _ in range(3)]
    done = Job.objects.order_by("pk")[:2].retry()
    assert done.retried == {jobs[0].pk, jobs[1].pk}


def test_it_is_a_verb_of_a_chosen_set_of_jobs():
    assert not hasattr(Job.objects, "retry")
    assert not hasattr(Job.objects, "aretry")
    for verb in (Job.objects.all().retry, Job().retry):
        assert verb.alters_data


# --- One job


def test_the_job_shows_what_was_done():
    job = JobFactory(succeeded=True)
    job.retry()
    assert (job.status, job.round, job.result) == (Status.PENDING, 2, None)
    with pytest.raises(RetryRefused) as caught:
        job.retry()
    assert (caught.value.job_id, caught.value.holder_id) == (job.pk, None)


def test_a_job_that_is_gone():
    job = JobFactory(failed=True)
    chosen(job).delete()
    with pytest.raises(RetryRefused, match="its row is gone"):
        job.retry()


def test_in_async_code():
    job = JobFactory(failed=True)
    other = JobFactory(failed=True)
    async_to_sync(job.aretry)()
    assert job.status == Status.PENDING
    assert async_to_sync(chosen(other).aretry)().retried == {other.pk}


# --- Dedup ids


def test_it_holds_the_id_that_it_still_has():
    job = JobFactory(failed=True, **QUEUED, dedup_id="k")
    job.retry()
    assert job.dedup_id == "k"
    assert add.using(dedup="k").dispatch(1, 2) == (job, "skipped")


@pytest.mark.parametrize("hold", ["finished", "removed"])
def test_the_holder_of_its_id_keeps_it(hold):
    """Case 176: a failed k while a newer k waits."""
    old, new = taken_over(hold=hold)
    before = table()
    assert parts(chosen(old).retry()) == {"conflicts": {old.pk: new.pk}}
    with pytest.raises(RetryRefused, match=f"job {new.pk} has its dedup id") as caught:
        old.retry()
    assert caught.value.holder_id == new.pk
    assert table() == before


@pytest.mark.parametrize(
    "holder",
    [
        {"leased": True, "dedup_hold": "finished"},
        {"expired": True, "dedup_hold": "finished"},
        {"failed": True, "dedup_hold": "removed"},
        {"failed": True, "dedup_hold": "", "dedup_until": DatabaseNow(60)},
        {"failed": True, "dedup_hold": "finished", "dedup_until": DatabaseNow(60)},
        {"task": "tests.tasks.fail", "dedup_hold": "finished"},
    ],
    ids=["running", "lost", "removed", "window", "window and finished", "other task"],
)
def test_whoever_holds_it_by_its_own_rules(holder):
    old = JobFactory(failed=True, **QUEUED, released_dedup_id="k")
    new = JobFactory(**holder, dedup_id="k")
    before = table()
    assert chosen(old).retry().conflicts == {old.pk: new.pk}
    assert table() == before


@pytest.mark.parametrize("state", STATES)
def test_an_id_that_nobody_holds_comes_back(state):
    """From a job that has it no longer by the rules, as a dispatch would take it."""
    old, new = taken_over(state)
    Job.objects.filter(pk=new.pk).update(
        status=Status.SUCCEEDED, finished_at=DatabaseNow()
    )
    old.retry()
    assert (old.dedup_id, old.released_dedup_id) == ("k", None)
    other = row(new)
    assert (other["dedup_id"], other["released_dedup_id"]) == (None, "k")
    assert add.using(dedup="k").dispatch(1, 2) == (old, "skipped")


def test_an_id_whose_job_was_removed_comes_back():
    old = JobFactory(failed=True, **QUEUED, released_dedup_id="k")
    old.retry()
    assert (old.dedup_id, old.released_dedup_id) == ("k", None)


def test_an_id_of_another_queue_is_another_id():
    old = JobFactory(failed=True, **QUEUED, released_dedup_id="k", queue="a")
    JobFactory(**QUEUED, dedup_id="k", queue="b")
    old.retry()
    assert old.dedup_id == "k"


def test_a_window_is_not_begun_anew():
    """It is that of the dispatch; once over, the next dispatch takes the id over."""
    old = JobFactory(
        failed=True,
        task=add.name,
        dedup_id="k",
        dedup_ttl=dt.timedelta(minutes=1),
        dedup_until=DatabaseNow(-1),
    )
    ends = old.dedup_until
    old.retry()
    assert (old.dedup_id, old.dedup_until) == ("k", ends)
    added = add.using(dedup=Dedup("k", ttl=60)).dispatch(1, 2)
    assert added.outcome == "added"
    assert row(old)["status"] == Status.PENDING


def test_of_several_of_one_id_the_one_that_has_it():
    """The others could only run beside it."""
    oldest, older = (
        JobFactory(failed=True, **QUEUED, released_dedup_id="k") for _ in range(2)
    )
    newest = JobFactory(failed=True, **QUEUED, dedup_id="k")
    done = chosen(oldest, older, newest).retry()
    assert parts(done) == {
        "retried": {newest.pk},
        "conflicts": {oldest.pk: newest.pk, older.pk: newest.pk},
    }


def test_of_several_that_have_lost_it_the_newest():
    older, newer = (
        JobFactory(failed=True, **QUEUED, released_dedup_id="k") for _ in range(2)
    )
    assert parts(chosen(older, newer).retry()) == {
        "retried": {newer.pk},
        "conflicts": {older.pk: newer.pk},
    }


# --- Transactions and trouble


def test_it_rolls_back_with_the_caller():
    job = JobFactory(failed=True)
    lost = JobFactory(failed=True, **QUEUED, released_dedup_id="k")
    before = table()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert chosen(job, lost).retry().retried == {job.pk, lost.pk}
        raise ZeroDivisionError
    assert table() == before


def test_a_conflict_leaves_the_callers_transaction_usable():
    old, new = taken_over()
    other = JobFactory(failed=True)
    with transaction.atomic():
        done = chosen(old, other).retry()
        assert Job.objects.count() == 3
    assert parts(done) == {"retried": {other.pk}, "conflicts": {old.pk: new.pk}}
    assert row(other)["status"] == Status.PENDING
