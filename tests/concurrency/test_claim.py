"""Claims by several workers at once, and beside rows that others keep locked.

Each was seen to fail with the line that it watches taken out of the package: see the notes.
"""

import logging
import queue
import threading

import pytest
from django.db import connection, transaction

from django_leasequeue import db
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.states import Status
from django_leasequeue.transitions.claim import recovery
from tests.factories import JobFactory
from tests.helpers import (
    DEADLINE,
    eventually,
    in_thread,
    paused,
    run_together,
    together,
)
from tests.models import Effect
from tests.road import claim, claim_under_way, ids, isolation, locked, row
from tests.tasks import add

one_lock = pytest.mark.skipif(
    "connection.features.has_select_for_update", reason="each row has a lock of its own"
)
has_row_locks = pytest.mark.skipif(
    "not connection.features.has_select_for_update",
    reason="one lock for the whole file",
)


def make(count, **options):
    """Pending jobs, quickly."""
    Job.objects.dispatch_many(add.spec(number, 0) for number in range(count))
    if options:
        Job.objects.update(**options)


class Watched:
    """A claim in a thread of its own, of which the test can await a statement."""

    def __init__(self, word, skip_locked=True):
        self.word, self.skip_locked = word, skip_locked
        self.sent = queue.Queue()

    def __call__(self):
        connection.features.has_select_for_update_skip_locked &= self.skip_locked
        with connection.execute_wrapper(self.watch):
            return ids(claim(expired=False))

    def watch(self, execute, sql, params, many, context):
        if self.word in sql:
            self.sent.put(sql)
        return execute(sql, params, many, context)

    def wait(self):
        """Return the first statement with the word, once it is about to be sent."""
        return self.sent.get(timeout=DEADLINE)


def recovers_at_once(count, monkeypatch):
    """Let a look for leases that are past take so many."""
    monkeypatch.setattr(recovery, "_RECOVERED", count)


def under_way(trait):
    """Hold the first claim that has rows, or recovers them, while it has them locked."""
    if trait == "expired":
        return paused(db, "take", after=True)
    return claim_under_way()


def claim_all(number, limit=3):
    """Claim until nothing is left; returns the ids in the order in which they came."""
    taken = []
    while Job.objects.pending().exists() or Job.objects.expired().exists():
        taken += ids(claim(limit))
    return taken


def test_no_job_twice():
    """Eight workers that all get some empty the queue: each job is claimed once.

    Fails with a take() that does not lock and an update without its guard on the status.
    """
    make(120)
    gate = threading.Barrier(8)

    def work(number):
        # Nobody goes on before all have some.
        first = eventually(lambda: ids(claim(3)))
        gate.wait(DEADLINE)
        return first + claim_all(number)

    shares = together(8, work)
    taken = [job for share in shares for job in share]
    assert sorted(taken) == sorted(Job.objects.values_list("id", flat=True))
    assert set(Job.objects.values_list("claims", "status")) == {(1, Status.RUNNING)}


def test_no_lost_job_twice():
    """Leases that are past are recovered once each, however many workers look.

    Fails with a take() that does not lock and an update without the former token.
    """
    jobs = JobFactory.create_batch(40, expired=True)
    shares = together(6, claim_all)
    assert sorted(job for share in shares for job in share) == sorted(ids(jobs))
    assert set(Job.objects.values_list("claims", "recoveries")) == {(2, 1)}


def test_order_beside_dispatches():
    """What one worker claims of a lane comes in order, while somebody dispatches into it."""
    stop = threading.Event()

    def dispatch():
        try:
            for number in range(40):
                Job.objects.dispatch(add, [number, 0])
        finally:
            stop.set()

    def work():
        taken = []
        while not stop.is_set() or Job.objects.pending().exists():
            taken += ids(claim(2))
        return taken

    _, taken = run_together([dispatch, work])
    assert taken == list(Job.objects.order_by("id").values_list("id", flat=True))


@has_row_locks
@pytest.mark.parametrize("limit", [2, 10, 30])
@pytest.mark.parametrize("trait", ["pending", "expired"])
def test_a_claim_locks_only_the_rows_it_takes(limit, trait, monkeypatch):
    """While one is under way, another gets all that is left, in a small table, too.

    Fails on MySQL, which sorts there and locks every candidate, without FORCE INDEX.
    """
    make(80)
    if trait == "expired":
        claim()
        Job.objects.update(processing_until=DatabaseNow(-1))
    with connection.cursor() as cursor:  # the counts by which a plan is chosen
        table = "TABLE " if connection.vendor == "mysql" else ""
        cursor.execute(f"ANALYZE {table}leasequeue_job")
    look = trait == "expired"
    recovers_at_once(limit, monkeypatch)
    with (
        under_way(trait) as pause,
        in_thread(lambda: ids(claim(limit, expired=look))) as first,
    ):
        pause.wait()
        recovers_at_once(80, monkeypatch)
        others = ids(claim(expired=look))
        pause.resume()
        assert len(first.result()) == limit
    assert len(others) == Job.objects.count() - limit


@has_row_locks
def test_003_locked_rows_are_passed_over():
    """A session keeps the first fifty locked: three workers take the others and wait for none.

    Fails, by the deadline, without SKIP LOCKED.
    """
    make(80)
    found = list(Job.objects.order_by("id"))
    kept, free = found[:50], found[50:]
    with locked(kept):
        shares = together(3, lambda number: ids(claim(10)))
        assert sorted(job for share in shares for job in share) == ids(free)
        assert claim() == []
    assert sorted(ids(claim())) == ids(kept)


@has_row_locks
def test_003_locked_lost_rows_are_passed_over():
    """The same for leases that are past."""
    kept, free = JobFactory.create_batch(2, expired=True)
    with locked([kept]):
        assert ids(claim()) == [free.pk]
    assert ids(claim()) == [kept.pk]


@one_lock
def test_003_a_locked_file_is_waited_for():
    """Where there is one lock for all, a claim waits for it and then gets its jobs."""
    make(3)
    with locked([]) as let_go, in_thread(claiming := Watched("UPDATE")) as worker:
        claiming.wait()
        assert worker.is_running
        let_go()
        assert len(worker.result()) == 3


@pytest.mark.parametrize("trait", ["pending", "expired"])
def test_009_another_was_faster(trait, caplog):
    """Worker A has seen the candidates; B claims them all; A gets nothing, and no error.

    Fails with candidates read by lanes() taken without a look at their state.
    """
    expired = trait == "expired"
    JobFactory.create_batch(3, **({trait: True} if expired else {}))
    step = (db, "write_transaction") if expired else (db.Taking, "take")
    with paused(*step) as pause, in_thread(claim) as first:
        pause.wait()
        second = claim()
        assert len(second) == 3
        pause.resume()
        assert first.result() == []
    assert set(Job.objects.values_list("processing_token", flat=True)) == {
        second[0].token
    }
    assert not [
        record for record in caplog.records if record.levelno >= logging.WARNING
    ]


@has_row_locks
@pytest.mark.parametrize("trait", ["pending", "expired"])
def test_009_paused_between_read_and_mark(trait, monkeypatch):
    """Worker A holds its candidates locked; B gets others or nothing, and A gets its own.

    Fails with a take() that does not lock.
    """
    JobFactory.create_batch(3, **({trait: True} if trait == "expired" else {}))
    recovers_at_once(2, monkeypatch)
    with (
        under_way(trait) as pause,
        in_thread(lambda: ids(claim(2, expired=trait == "expired"))) as first,
    ):
        pause.wait()
        second = ids(claim())
        assert len(second) == Job.objects.count() - 2
        pause.resume()
        assert len(first.result()) == 2
    assert set(first.result()).isdisjoint(second)
    assert set(Job.objects.values_list("status", flat=True)) == {Status.RUNNING}


LEVELS = ["read committed", "repeatable read", "serializable"]


@has_row_locks
@pytest.mark.parametrize("level", LEVELS)
def test_010_any_isolation_level(level, caplog):
    """Claim, renewal, outcome and recovery at once: every job ends once, unharmed.

    Whatever the database refuses at that level is run again unseen.
    """
    make(90)
    JobFactory.create_batch(30, expired=True)

    def work(number):
        done = []
        with isolation(level):
            while Job.objects.pending().exists() or Job.objects.expired().exists():
                held = claim(4)
                for job in held[:1]:
                    renewed, lost, busy = Job.objects.renew(job.token)
                    assert renewed | busy == set(ids(held))
                    assert not lost
                left = [(job, Succeeded("1")) for job in held]
                while left:
                    settled = Job.objects.settle(left)
                    verdicts = [answer.verdict.value for answer in settled]
                    assert set(verdicts) <= {"written", "busy"}
                    left = [
                        pair
                        for pair, verdict in zip(left, verdicts, strict=True)
                        if verdict == "busy"
                    ]
                done += ids(held)
        return done

    shares = together(4, work)
    done = [job for share in shares for job in share]
    assert sorted(done) == sorted(Job.objects.values_list("id", flat=True))
    assert set(Job.objects.values_list("status", "attempts")) == {("succeeded", 1)}
    assert sum(Job.objects.values_list("recoveries", flat=True)) == 30
    assert not [
        record for record in caplog.records if record.levelno >= logging.WARNING
    ]


@pytest.mark.parametrize("level", LEVELS[:2])
def test_005_producers_never_suffer_from_polling(level):
    """Producers insert in their own transactions while workers poll an almost empty table.

    No producer sees a deadlock or waits for a worker: a claim locks the rows it takes, and
    no gap behind them. Fails at repeatable read on InnoDB if claims are made at that level.
    """
    stop = threading.Event()
    count = 4

    def produce(number):
        for turn in range(15):
            with isolation(level), transaction.atomic():
                Effect.objects.create(name=f"{number} {turn}")
                Job.objects.dispatch(add, [number, turn])

    def producers():
        try:
            together(count, produce)
        finally:
            stop.set()

    def poll():
        taken = []
        with isolation(level):
            while not stop.is_set() or Job.objects.pending().exists():
                taken += ids(claim(2))
        return taken

    shares = run_together([producers, *[poll] * 3])[1:]
    taken = [job for share in shares for job in share]
    assert len(taken) == len(set(taken)) == Effect.objects.count() == count * 15


@has_row_locks
@pytest.mark.parametrize("level", LEVELS[:2])
def test_005_a_claim_leaves_no_lock_behind_its_rows(level):
    """While a claim is under way, others insert behind, before and between its rows at once.

    Fails at repeatable read on InnoDB if claims are made at that level.
    """
    Job.objects.dispatch_many(
        add.using(priority=priority, delay=delay).spec(1, 2)
        for priority in (0, 5)
        for delay in (0, 60)
    )

    def work():
        with isolation(level):
            return claim(1, expired=False)

    with claim_under_way() as pause, in_thread(work) as worker:
        pause.wait()
        with in_thread(
            lambda: Job.objects.dispatch_many(
                add.using(priority=priority, delay=delay).spec(1, 2)
                for priority in (-1, 0, 3, 5, 9)
                for delay in (0, 30, 90)
            )
        ) as producer:
            assert len(producer.result()) == 15
        pause.resume()
        assert len(worker.result()) == 1


@has_row_locks
def test_007_without_skip_locked_it_waits():
    """A server without SKIP LOCKED: a claim waits for the lock, and never idles in silence."""
    make(4)
    first = Job.objects.order_by("id").first()
    claiming = Watched("FOR UPDATE", skip_locked=False)
    with locked([first]) as let_go, in_thread(claiming) as worker:
        assert "SKIP LOCKED" not in claiming.wait()
        assert worker.is_running
        let_go()
        assert len(worker.result()) == 4


def test_007_no_job_twice_without_skip_locked():
    """Nor is a job claimed twice there."""
    make(40)

    def work(number):
        connection.features.has_select_for_update_skip_locked = False
        return claim_all(number)

    shares = together(4, work)
    taken = [job for share in shares for job in share]
    assert sorted(taken) == sorted(Job.objects.values_list("id", flat=True))
    assert set(Job.objects.values_list("claims", flat=True)) == {1}


def test_expiry_is_judged_by_the_database():
    """Renewed a moment before, a lease is not taken: the look of a moment ago does not count.

    Fails with a recovery that trusts its look without a lock.
    """
    job = JobFactory(expired=True)
    with paused(db, "write_transaction") as pause, in_thread(claim) as worker:
        pause.wait()
        Job.objects.filter(pk=job.pk).update(processing_until=DatabaseNow(300))
        pause.resume()
        assert worker.result() == []
    assert row(job)["processing_token"] == job.processing_token
