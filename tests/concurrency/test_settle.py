"""Outcomes beside a recovery, a release, a second settle and other people's locks.

Each asserts who won, that the loser was told, and the row afterwards.
"""

import threading
import uuid

import pytest
from django.db import connection, transaction

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, Succeeded
from django_leasequeue.states import Status
from django_leasequeue.transitions.settle import Settled, Verdict
from tests.factories import JobFactory
from tests.helpers import in_thread, run_together, together
from tests.road import claim, ids, locked, outrun_by_its_lease, row
from tests.tasks import add

has_row_locks = pytest.mark.skipif(
    "not connection.features.has_select_for_update",
    reason="one lock for the whole file",
)
ROUNDS = 15


def settle(job, outcome=None):
    [settled] = Job.objects.settle([(job, outcome or Succeeded())])
    return settled


def settle_through(job, outcome=None):
    """Settle, again and again while others have the row locked for a moment."""
    while (settled := settle(job, outcome)).verdict is Verdict.BUSY:
        pass
    return settled


def held(**options):
    """A job that this worker holds."""
    JobFactory(**options)
    [job] = claim()
    return job


def end_lease(job, seconds=-1):
    Job.objects.filter(pk=job.id).update(processing_until=DatabaseNow(seconds))


def test_recovery_before_settle():
    """The late worker is told who has the job now, and the new run's outcome stands."""
    late = held()
    end_lease(late)
    with in_thread(claim) as other:
        [again] = other.result()
    settled = settle(late, Failed({"message": "late"}))
    assert (settled.verdict, settled.holder) == (Verdict.LOST, again.worker)
    assert settle(again) == Settled(Verdict.WRITTEN)
    after = row(late)
    assert (after["status"], after["attempts"]) == (Status.SUCCEEDED, 1)
    assert "late" not in str(after["errors"])


def test_settle_before_recovery():
    """The outcome is in, and the next claim finds nothing."""
    job = held()
    assert settle(job) == Settled(Verdict.WRITTEN)
    end = row(job)["finished_at"]
    with in_thread(claim) as other:
        assert other.result() == []
    assert row(job)["finished_at"] == end


@has_row_locks
def test_lease_ends_while_the_outcome_is_on_its_way(settings):
    """The row was locked in time but the update comes too late: refused, and then recovered.

    Fails with an update that does not look at the lease again.
    """
    settings.LEASEQUEUE = {"LEASE": 300, "SAFETY_BUFFER": 0}
    late = Failed({"message": "late"})
    job, settled = outrun_by_its_lease(held, lambda job: settle(job, late))
    assert settled.verdict is Verdict.LOST
    assert "lease ended" in settled.why
    [again] = claim()
    assert (again.id, again.recoveries) == (job.id, 1)


def test_settle_and_recovery_at_the_lease_end(settings):
    """At the very moment when the lease ends, exactly one of the two gets the job."""
    settings.LEASEQUEUE = {"LEASE": 300, "SAFETY_BUFFER": 0}
    seen = set()
    for turn in range(ROUNDS):
        job = held()
        end_lease(job, 0.001 * turn)
        settled, again = run_together([lambda job=job: settle_through(job), claim])
        after = row(job)
        if settled.verdict is Verdict.WRITTEN:
            assert again == []
            assert (after["status"], after["claims"]) == (Status.SUCCEEDED, 1)
        else:
            assert settled.verdict is Verdict.LOST
            again = again or claim()
            assert ids(again) == [job.id]
            after = row(job)
            assert after["status"] == Status.RUNNING
            assert (after["attempts"], after["result"]) == (0, None)
        seen.add(settled.verdict)
        Job.objects.all().delete()
    assert seen  # which of the two comes first is the machine's choice


def test_settle_and_release_at_once():
    """Its supervisor gives the job back while its outcome comes: one of the two counts."""
    for _ in range(ROUNDS):
        job = held()
        settled, released = run_together(
            [
                lambda job=job: settle_through(job),
                lambda job=job: Job.objects.release(job.token, death="killed"),
            ]
        )
        after = row(job)
        if settled.verdict is Verdict.WRITTEN:
            assert not released
            assert (after["status"], after["recoveries"]) == (Status.SUCCEEDED, 0)
        else:
            assert released == {job.id}
            assert (after["status"], after["recoveries"]) == (Status.PENDING, 1)
            assert after["attempts"] == 0
        Job.objects.all().delete()


def test_one_outcome_twice_at_once():
    """A settle that is tried again while the first still runs: both succeed, written once.

    Fails without last_token, by which the second knows its own write.
    """
    job = held()

    assert (
        together(4, lambda number: settle_through(job))
        == [Settled(Verdict.WRITTEN)] * 4
    )
    after = row(job)
    assert (after["status"], after["attempts"]) == (Status.SUCCEEDED, 1)


def test_different_outcomes_at_once():
    """Two runs of one job, of which one has lost its lease: one outcome is recorded."""
    late = held()
    end_lease(late)
    [again] = claim()
    verdicts = run_together(
        [
            lambda: settle_through(late, Failed({"message": "late"})),
            lambda: settle_through(again, Succeeded("1")),
        ]
    )
    assert [settled.verdict for settled in verdicts] == [Verdict.LOST, Verdict.WRITTEN]
    after = row(late)
    assert (after["status"], after["result"], after["attempts"]) == ("succeeded", 1, 1)


@has_row_locks
def test_busy_is_not_lost():
    """A row that somebody keeps locked is told as busy, and holds up none of the others.

    Fails, by the deadline, without SKIP LOCKED.
    """
    JobFactory.create_batch(3)
    first, busy, last = claim()
    with locked([busy]) as let_go:
        found = Job.objects.settle([(job, Succeeded()) for job in (first, busy, last)])
        assert [settled.verdict for settled in found] == [
            *(Verdict.WRITTEN, Verdict.BUSY, Verdict.WRITTEN),
        ]
        assert row(busy)["status"] == Status.RUNNING
        let_go()
        assert settle(busy) == Settled(Verdict.WRITTEN)
    assert set(Job.objects.values_list("status", flat=True)) == {Status.SUCCEEDED}


@has_row_locks
def test_locked_and_past_is_lost():
    """Once the lease is past, waiting for the lock would be for nothing: lost at once."""
    job = held()
    end_lease(job)
    with locked([job]):
        assert settle(job).verdict is Verdict.LOST


@has_row_locks
def test_a_slow_caller_does_not_hold_up_the_worker():
    """Its open transaction has dispatched the running job's id; the outcome goes in at once.

    Fails, with BUSY, if a dispatch locks a running owner that it only skips.
    """
    holder = Job.objects.dispatch(add, [1, 2], dedup="k").job
    [job] = claim()
    with transaction.atomic():
        answer = Job.objects.dispatch(add, [1, 2], dedup="k")
        assert answer.job.id == holder.id
        with in_thread(lambda: settle(job)) as worker:
            assert worker.result() == Settled(Verdict.WRITTEN)
    assert row(holder)["status"] == Status.SUCCEEDED


@has_row_locks
def test_an_insert_of_the_same_id_does_not_hold_up_the_worker():
    """Nor does one that waits to commit a new job of an id near by: settle writes no index
    that a duplicate check could have locked."""
    for word in ("a", "c", "e"):
        Job.objects.dispatch(add, [1, 2], dedup=word)
    jobs = claim()
    with transaction.atomic():
        for word in ("b", "d", "f", "a", "e"):
            Job.objects.dispatch(add, [1, 2], dedup=word)
        with in_thread(
            lambda: Job.objects.settle([(job, Succeeded()) for job in jobs])
        ) as worker:
            assert worker.result() == [Settled(Verdict.WRITTEN)] * 3


def test_004_work_is_done_once_whatever_the_last_write_meets():
    """Two workers; the closing write meets locks and rivals, and the counter says one run each."""
    runs = []
    guard = threading.Lock()

    def work(number):
        while Job.objects.pending().exists():
            for job in claim(2):
                with guard:
                    runs.append(job.id)
                settle_through(job)

    Job.objects.dispatch_many(add.spec(number, 0) for number in range(30))
    together(2, work)
    assert sorted(runs) == sorted(Job.objects.values_list("id", flat=True))
    assert set(Job.objects.values_list("status", "attempts")) == {("succeeded", 1)}


def test_another_token_never_writes():
    """However the token was come by: without a claim behind it, nothing is written.

    Fails with a guard on the id alone.
    """
    job = held()
    stranger = held()
    before = row(job)
    stranger.id, stranger.token = job.id, uuid.uuid4()
    assert settle(stranger).verdict is Verdict.LOST
    assert row(job) == before
    assert connection.in_atomic_block is False
