"""Concurrency keys: who gets a slot, in which order, what frees it and who comes next."""

import datetime as dt
import uuid

import pytest
from django.db import connection, transaction

from django_leasequeue import Concurrency, Dedup, db, slots
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Slots
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.selection import Selection
from django_leasequeue.slots import forgotten
from django_leasequeue.states import Status
from tests.factories import JobFactory
from tests.helpers import eventually
from tests.road import WORKER, claim, ids, row, statements, toy
from tests.token_guard import guarded
from tests.workers import end_leases

MINUTE = dt.timedelta(minutes=1)
ERROR = {"message": "as asked"}


def keyed(key="k", limit=1, **given):
    return JobFactory(concurrency_key=key, concurrency_limit=limit, **given)


def several(count, key="k", limit=1, **given):
    return [keyed(key, limit, **given) for _ in range(count)]


def settle(job, outcome=None):
    [settled] = Job.objects.settle([(job, outcome or Succeeded("3"))])
    assert settled.verdict.value == "written"


def end_unheard(job):
    """End a job's run as if its worker had died right after the commit."""
    Job.objects.filter(pk=job.pk).update(
        status=Status.FAILED,
        finished_at=DatabaseNow(),
        processing_token=None,
        processing_until=None,
    )


def blocked(*jobs):
    return [row(job)["blocked"] for job in jobs]


# --- Who may start


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_no_more_start_than_may(limit):
    """And the others are out of the way of later claims."""
    jobs = several(5, limit=limit)
    first = claim()
    assert ids(first) == ids(jobs[:limit])
    assert blocked(*jobs) == [0] * min(limit, 5) + [1] * max(5 - limit, 0)
    assert claim() == []


def test_one_at_a_time_to_the_end_and_in_order():
    """By priority, then by time, then by id; each starts as the one before has ended."""
    low, late, soon, high = (
        keyed(priority=-1),
        keyed(run_at=DatabaseNow(-10)),
        keyed(run_at=DatabaseNow(-20)),
        keyed(priority=1),
    )
    started = []
    for _ in range(4):
        [job] = claim()
        started.append(job.id)
        settle(job)
    assert started == ids([high, soon, late, low])
    assert claim() == []
    assert set(Job.objects.values_list("status", "blocked")) == {("succeeded", 0)}


def test_keys_do_not_mind_one_another():
    jobs = [keyed("a"), keyed("A"), keyed("a "), JobFactory(), keyed("a")]
    assert ids(claim()) == ids(jobs[:4])


def test_one_key_in_several_queues():
    """The limit is the key's, whatever the queue, and each queue's next one may try."""
    first, other, same = keyed(queue="a"), keyed(queue="b"), keyed(queue="a")
    [held] = claim(queues="a,b")
    assert held.id == first.pk
    settle(held)
    assert blocked(other, same) == [0, 0]
    [held] = claim(queues="b")
    assert held.id == other.pk
    assert claim() == []
    settle(held)
    assert ids(claim()) == [same.pk]


def test_the_limit_that_counts_is_the_one_in_the_job_s_row():
    """As after a deploy that changed it: each looks how many run before it joins them."""
    wide, narrow, wide_again = keyed(limit=2), keyed(limit=1), keyed(limit=2)
    assert ids(claim()) == [wide.pk, wide_again.pk]
    assert blocked(narrow) == [1]


def test_163_a_distant_job_blocks_no_ready_one():
    """Case 163: one due tomorrow, and another that waits for its retry, are not in the way."""
    keyed(run_at=DatabaseNow(86400), priority=100)
    ready = several(3)
    [held] = claim()
    settle(held, RetryLater(MINUTE, ERROR))
    [held] = claim()
    settle(held)
    [held] = claim()
    assert held.id == ready[2].pk
    assert row(ready[0])["blocked"] == 0


def test_163_many_ready_jobs_run_one_at_a_time():
    for expected in several(40):
        [held] = claim(5)
        assert held.id == expected.pk
        settle(held)


def test_full_keys_hold_up_nobody_in_their_queue():
    """However many there are, a claim of one finds the free job behind them."""
    several(120)
    free = JobFactory()
    [held] = claim(1)
    assert held.concurrency_key == "k"
    assert ids(claim(1)) == [free.pk]


def test_a_claim_marks_no_more_than_some_hundreds():
    """One transaction stays short: the next ones go on."""
    Job.objects.bulk_create(
        Job(
            task="tests.tasks.add",
            args=[1, 2],
            run_at=DatabaseNow(),
            created_at=DatabaseNow(),
            concurrency_key="k",
            concurrency_limit=1,
        )
        for _ in range(3000)
    )
    claim(1)
    for _ in range(3):
        before = Job.objects.filter(blocked=1).count()
        claim(1)
        marked = Job.objects.filter(blocked=1).count() - before
        assert 0 < marked <= 1300


def test_a_key_without_a_limit_is_one_at_a_time():
    """As somebody wrote it by hand: it stops no claim."""
    first, second = several(2, limit=None)
    free = JobFactory()
    [held, other] = claim()
    assert [held.id, other.id] == [first.pk, free.pk]
    assert blocked(second) == [1]
    end_unheard(first)
    Job.objects.call_forgotten()
    assert ids(claim()) == [second.pk]


def test_no_run_is_changed_by_waits_and_calls():
    """Each write of who waits names those that nobody runs."""
    first, _ = several(2)
    several(2, "many", limit=2, queue="x")
    with guarded():
        assert claim(1)[0].id == first.pk
        claim()
        keyed(priority=5)
    end_unheard(first)
    with guarded():
        Job.objects.call_forgotten()
        settle(claim(1)[0])


# --- What frees a slot


ENDS = {
    "succeeded": (Succeeded("1"), Status.SUCCEEDED),
    "failed": (Failed(ERROR), Status.FAILED),
    "retried": (RetryLater(MINUTE, ERROR), Status.PENDING),
    "snoozed": (Snoozed(MINUTE), Status.PENDING),
    "cancelled": (Cancelled(), Status.CANCELLED),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_outcome_frees_the_slot(name):
    outcome, status = ENDS[name]
    first, second = several(2)
    [held] = claim()
    assert claim() == []
    settle(held, outcome)
    assert row(first)["status"] == status
    assert blocked(second) == [0]
    assert ids(claim()) == [second.pk]


def test_a_job_given_back_starts_again_before_those_that_came_later():
    first, second = several(2)
    [held] = claim()
    claim()
    settle(held, Released())
    assert ids(claim()) == [first.pk]
    assert blocked(second) == [1]


def test_a_release_frees_the_slot():
    first, _ = several(2)
    [held] = claim()
    claim()
    assert Job.objects.release(held.token) == {first.pk}
    assert ids(claim()) == [first.pk]


def test_a_release_of_a_job_to_be_cancelled_calls_the_next():
    first, second = several(2)
    [held] = claim()
    claim()
    Job.objects.filter(pk=first.pk).update(cancel_requested_at=DatabaseNow())
    Job.objects.release(held.token)
    assert row(first)["status"] == Status.CANCELLED
    assert ids(claim()) == [second.pk]


def test_050_a_lease_that_is_past_frees_the_slot_once():
    """Case 050: what the late worker says then changes nothing, round after round."""
    jobs = several(3, limit=2)
    for _ in range(5):
        late = claim()
        assert len(late) == 2
        assert claim() == []
        end_leases(Job.objects.all())
        for job in late:
            [settled] = Job.objects.settle([(job, Succeeded("1"))])
            assert settled.verdict.value == "lost"
        assert Job.objects.release(late[0].token) == set()
        claim(0)  # which recovers them
    assert {row(job)["status"] for job in jobs} == {"pending"}


def test_a_lease_that_is_past_frees_the_slot_of_a_queue_that_nobody_takes():
    """Recovery of its job is for workers of its queue; its key is not only theirs."""
    keyed(queue="deserted")
    [_] = claim()
    second = keyed()
    assert claim(queues="default") == []
    end_leases(Job.objects.all())
    Job.objects.call_forgotten()
    assert ids(claim(queues="default")) == [second.pk]


def test_a_job_whose_row_is_gone_holds_nothing():
    first, second = several(2)
    claim()
    first.delete()
    Job.objects.call_forgotten()
    assert ids(claim()) == [second.pk]


def test_a_rerun_starts_when_its_turn_comes():
    first, second = several(2)
    [held] = claim()
    Job.objects.filter(pk=first.pk).update(rerun=True)
    settle(held)
    assert row(first)["status"] == Status.PENDING
    assert ids(claim()) == [second.pk]
    assert blocked(first) == [1]


def test_a_job_that_runs_again_with_another_key_holds_no_slot_of_the_first():
    """By the number of its claim: what its last run held is free."""
    first = keyed()
    [held] = claim()
    settle(held, Snoozed(dt.timedelta(0)))
    Job.objects.filter(pk=first.pk).update(concurrency_key="other")
    assert ids(claim()) == [first.pk]
    second = keyed()
    assert ids(claim()) == [second.pk]


def test_a_retry_by_hand_waits_for_its_turn():
    first, second = several(2)
    [held] = claim()
    settle(held)
    [held] = claim()
    assert held.id == second.pk
    first.refresh_from_db()
    first.retry()
    assert claim() == []
    assert blocked(first) == [1]
    settle(held)
    assert ids(claim()) == [first.pk]


@pytest.mark.django_db(transaction=True)
def test_a_cancel_of_the_one_that_was_called_calls_the_next():
    _, second, third = several(3)
    [held] = claim()
    claim()
    settle(held)
    assert blocked(second, third) == [0, 1]
    Job.objects.filter(pk=second.pk).cancel()
    assert blocked(second, third) == [0, 0]
    assert ids(claim()) == [third.pk]


@pytest.mark.django_db(transaction=True)
def test_a_cancelled_job_waits_for_nothing():
    _, second = several(2)
    claim()
    claim()
    assert Job.objects.filter(pk=second.pk).cancel().cancelled == {second.pk}
    assert blocked(second) == [0]


# --- In order, whatever happens


def test_a_newcomer_does_not_overtake_those_that_wait():
    """A slot that came free is for the first of them, even if nobody has called it yet."""
    first, second = several(2)
    [held] = claim()
    claim()
    end_unheard(first)
    third = keyed()
    [held] = claim()
    assert held.id == second.pk
    assert blocked(third) == [1]


def test_a_more_urgent_newcomer_goes_first():
    several(2)
    [held] = claim()
    claim()
    urgent = keyed(priority=10)
    settle(held)
    assert ids(claim()) == [urgent.pk]


# --- The worker's looks


def test_what_nobody_has_called_is_found():
    """As if the worker had died between its commit and the call."""
    first, second = several(2)
    claim()
    claim()
    end_unheard(first)
    assert claim() == []
    assert Job.objects.call_forgotten() == ("", True)
    assert blocked(second) == [0]


def test_what_waits_in_a_queue_that_nobody_takes_hides_no_other():
    """Its job allows one at a time, so that nothing is free for it; the others allow three."""
    keyed(queue="z", limit=3)
    claim()
    nobodys, *others = keyed(queue="a"), *several(2, queue="z", limit=3)
    Job.objects.pending().update(blocked=1)
    Job.objects.call_forgotten()
    assert blocked(*others) == [0, 0]
    # And it starts no sooner for having been called.
    assert ids(claim(queues="a")) == []
    assert blocked(nobodys) == [1]


def test_a_look_calls_only_once_for_a_slot():
    """While all workers are busy, the queue is not emptied into the way of others."""
    first, *others = several(4)
    claim()
    claim()
    end_unheard(first)
    for _ in range(3):
        Job.objects.call_forgotten()
    assert sorted(blocked(*others)) == [0, 1, 1]


def test_a_look_goes_through_many_keys_in_steps(monkeypatch):
    monkeypatch.setattr(forgotten, "KEYS", 2)
    for key in "abcde":
        keyed(key)
    claim()
    after, seen = Job.objects.call_forgotten()
    assert (after, seen) == ("b", True)
    after, seen = Job.objects.call_forgotten(after)
    assert (after, seen) == ("d", True)
    assert Job.objects.call_forgotten(after) == ("", True)


def test_a_look_without_any_keys_is_two_statements():
    with statements() as seen:
        assert Job.objects.call_forgotten() == ("", False)
    assert len(seen) == 2


@pytest.mark.parametrize("others", [0, 3])
def test_slots_that_somebody_has_removed_are_made_again(others, monkeypatch):
    """With those who have them, wherever their keys are among the others."""
    monkeypatch.setattr(forgotten, "KEYS", 2)
    running, waiting = several(2, "m", limit=1)
    for key in "axz"[:others]:
        several(2, key)
    claim()
    Slots.objects.filter(key="m").delete()

    def look():
        after = ""
        while (after := Job.objects.call_forgotten(after)[0]) != "":
            pass
        return Slots.objects.filter(key="m").exists()

    eventually(look)
    assert claim() == [] and blocked(waiting) == [1]
    end_unheard(running)
    look()
    assert ids(claim())[-1:] == [waiting.pk]


def test_slots_that_nobody_uses_are_removed(monkeypatch):
    for key in "abc":
        keyed(key)
    [held, other, waited_for] = claim()
    keyed("c")
    claim()
    settle(held)
    Slots.objects.update(used_at=DatabaseNow(-7200))
    end_leases(Job.objects.filter(pk=waited_for.id))
    assert Job.objects.prune_slots() == 1
    assert set(Slots.objects.values_list("key", flat=True)) == {"b", "c"}
    assert other.concurrency_key == "b"
    assert Job.objects.prune_slots() == 0


# --- One job by its id


def claim_job(job):
    return Job.objects.claim_job(job.pk, uuid.uuid4(), WORKER)


def test_a_claim_of_one_job_needs_a_slot():
    """It waits for no other's turn, but never makes one too many; and marks nothing."""
    first, second, third = several(3)
    assert claim_job(second).id == second.pk
    assert claim_job(third) is None
    assert blocked(first, third) == [0, 0]
    assert claim() == []
    assert claim_job(first) is None
    end_leases(Job.objects.all())
    assert claim_job(third).id == third.pk
    assert row(third)["blocked"] == 0


# --- What jobs without a key pay


def test_a_claim_of_jobs_without_a_key_is_two_statements():
    """Where a statement can be enough: the look, and the claim itself, in autocommit mode."""
    JobFactory()
    for job in several(2):
        job.delete()
    keyed(run_at=DatabaseNow(3600)).delete()
    with statements() as seen:
        [_] = claim(expired=False)
    sent = [sql for sql in seen if "SAVEPOINT" not in sql]
    assert len(sent) == (3 if connection.vendor == "mysql" else 2), sent


def test_a_job_with_a_key_is_never_taken_without_a_look_at_its_slots(monkeypatch):
    """As when it comes after the look that says that there is none."""
    usual = db.lanes
    monkeypatch.setattr(
        db,
        "lanes",
        lambda *given: [lane._replace(keyed=False) for lane in usual(*given)],
    )
    late, plain = keyed(), JobFactory()
    assert ids(claim()) == [plain.pk]
    assert row(late)["status"] == Status.PENDING


def test_claim_says_whether_there_were_keys():
    JobFactory()
    one = Job.objects.claim(Selection(), 5, uuid.uuid4(), WORKER)
    assert not one.keyed
    keyed()
    assert Job.objects.claim(Selection(), 5, uuid.uuid4(), WORKER).keyed


# --- Broken rows


@pytest.mark.parametrize(
    "noted", [None, 7, "x", [1], [[1]], [["a", "b"]], [[1, 2, 3]], {"a": 1}], ids=str
)
def test_what_was_written_by_hand_is_nobody_s_slot(noted):
    job = keyed()
    Slots.objects.create(key="k", holders=noted or [], used_at=DatabaseNow())
    assert ids(claim()) == [job.pk]
    assert slots.holders(Job.objects.all(), "k") == [job.pk]


# --- supersedes


def newest(**options):
    concurrency = Concurrency("doc:{number}", supersedes=True)
    return toy(lambda number: number, name="newest", concurrency=concurrency, **options)


def test_a_newer_job_cancels_older_ones_that_wait():
    with newest() as task:
        running, _ = task.dispatch(1)
        [_] = claim()
        waiting, _ = task.dispatch(1)
        claim()
        other, _ = task.dispatch(2)
        delayed, _ = task.using(delay=60).dispatch(1)
        last, outcome = task.dispatch(1)
    assert outcome == "added"
    assert row(running)["status"] == Status.RUNNING
    assert {row(job)["status"] for job in (waiting, delayed)} == {Status.CANCELLED}
    assert {row(job)["status"] for job in (other, last)} == {Status.PENDING}


def test_of_a_batch_the_last_of_each_key_is_left():
    with newest() as task:
        done = Job.objects.dispatch_many([task.spec(n) for n in (1, 2, 1, 2, 3)])
    statuses = [row(job)["status"] for job, _ in done]
    assert statuses == ["cancelled", "cancelled", "pending", "pending", "pending"]


def test_a_dispatch_that_is_rolled_back_supersedes_nothing():
    with newest() as task:
        old, _ = task.dispatch(1)
        with transaction.atomic():
            task.dispatch(1)
            transaction.set_rollback(True)
        assert row(old)["status"] == Status.PENDING


def test_a_dispatch_that_its_dedup_id_answers_supersedes_nothing():
    """Dedup comes first: only a job that is really added takes the place of others."""
    with newest() as task:
        old, _ = task.using(dedup="d").dispatch(1)
        same, outcome = task.using(dedup="d").dispatch(1)
        assert (same.pk, outcome) == (old.pk, "skipped")
        assert row(old)["status"] == Status.PENDING
        task.using(dedup="e").dispatch(1)
    assert row(old)["status"] == Status.CANCELLED


def test_a_waiting_job_that_is_replaced_gets_the_key_of_its_new_arguments():
    """And need not wait for a slot of the old one; one that waits for a group still does."""
    first, later = Dedup("d", replace=True), Dedup("e", replace=True)
    with toy(lambda n: n, concurrency="doc:{n}") as task:
        task.dispatch(1)
        [_] = claim()
        waiting, _ = task.using(dedup=first).dispatch(1)
        claim()
        assert blocked(waiting) == [1]
        task.using(queue="x", group="g", concurrency=None).dispatch(3)
        after, _ = task.using(dedup=later, after_group="g").dispatch(1)
        job, outcome = task.using(dedup=first).dispatch(2)
        assert (job.pk, outcome) == (waiting.pk, "replaced")
        with transaction.atomic():
            [done] = Job.objects.dispatch_many([task.using(dedup=later).spec(2)])
        assert done[1] == "replaced"
    assert [row(one)["concurrency_key"] for one in (waiting, after)] == ["doc:2"] * 2
    assert blocked(waiting, after) == [0, 2]
    assert ids(claim(queues="default")) == [waiting.pk]


def test_a_waiting_job_that_is_put_off_is_in_nobodys_way():
    """It does not stand among those that are called, before others that are due."""
    later = Dedup("d", replace=True, postpone=True)
    with toy(lambda n: n, concurrency="k") as task:
        task.using(priority=9).dispatch(1)
        [held] = claim()
        put_off, _ = task.using(priority=5, dedup=later).dispatch(2)
        last, _ = task.dispatch(3)
        claim()
        assert blocked(put_off, last) == [1, 1]
        task.using(priority=5, dedup=later, delay=3600).dispatch(2)
    assert blocked(put_off, last) == [0, 1]
    settle(held)
    assert ids(claim()) == [last.pk]
