"""Prune beside dispatches, workers, other prunes and other people's locks."""

import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection

from django_leasequeue import Dedup, db
from django_leasequeue.db import DatabaseNow, removal
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.transitions import prune as pruning
from django_leasequeue.transitions.dispatch import owner as owners
from tests.callers import caller
from tests.factories import JobFactory
from tests.helpers import DEADLINE, in_thread, paused, run_together
from tests.road import claim, locked, row, table
from tests.tasks import add

has_row_locks = pytest.mark.skipif(
    "not connection.features.has_select_for_update",
    reason="one lock for the whole file",
)
DAY = 24 * 3600
QUEUED = {"task": add.name, "queue": "default"}


def old(**fields):
    return JobFactory(succeeded=True, finished_at=DatabaseNow(-2 * DAY), **fields)


def prune():
    return Job.objects.prune()


def door(name="a", **rules):
    return add.using(dedup=Dedup(name, **rules))


# --- Between the look and the delete


def came_back(job):
    """As a retry by hand does it."""
    Job.objects.filter(pk=job.pk).update(status="pending", finished_at=None)


def finished_again(job):
    Job.objects.filter(pk=job.pk).update(finished_at=DatabaseNow(), round=2)


def was_removed(job):
    Job.objects.filter(pk=job.pk).delete()


def was_asked_to_rerun(job):
    Job.objects.filter(pk=job.pk).update(rerun=True)


@pytest.mark.parametrize(
    "event", [came_back, finished_again, was_removed, was_asked_to_rerun]
)
def test_what_has_changed_since_it_was_looked_at_stays(event):
    """Fails with a delete by key alone."""
    job, other = old(), old()
    with paused(db, "remove") as pause, in_thread(prune) as pruner:
        pause.wait()
        event(job)
        after = row(job)
        pause.resume()
        assert pruner.result() == {"succeeded": 1}
    assert row(job) == after
    assert row(other) is None


def test_a_window_that_was_extended_keeps_the_row():
    """Fails with a delete that does not ask for the window again."""
    job = old(
        **QUEUED,
        dedup_id="a",
        dedup_ttl=timedelta(hours=1),
        dedup_until=DatabaseNow(60),
    )
    real = pruning._after

    def blind(*args):
        return [(at, pk, True) for at, pk, _ in real(*args)]

    # As if the window had ended when prune looked.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "_after", blind)
        assert door(ttl=3600, extend=True).dispatch(1, 2).outcome == "extended"
        assert prune() == {}
    assert row(job) is not None


# --- Dispatch


def test_a_dispatch_that_takes_the_id_over_first():
    """The id is the new job's; the old row goes without it."""
    first = old(**QUEUED, dedup_id="a", dedup_hold="finished")
    with paused(db, "remove") as pause, in_thread(prune) as pruner:
        pause.wait()
        job, outcome = door().dispatch(1, 2)
        assert outcome == "added"
        assert row(first)["dedup_id"] is None
        pause.resume()
        assert pruner.result() == {"succeeded": 1}
    assert set(table()) == {job.pk}
    assert row(job)["dedup_id"] == "a"


def test_a_dispatch_that_finds_the_row_and_then_loses_it():
    """It looks up the owner, prune removes that, and the dispatch makes a new job."""
    old(**QUEUED, dedup_id="a", dedup_hold="finished")
    with (
        paused(owners, "find", after=True) as pause,
        in_thread(lambda: door().dispatch(1, 2)) as dispatcher,
    ):
        pause.wait()
        assert prune() == {"succeeded": 1}
        pause.resume()
        job, outcome = dispatcher.result()
    assert outcome == "added"
    assert set(table()) == {job.pk}


@has_row_locks
def test_a_dispatch_in_a_callers_transaction_is_not_waited_for():
    """The row is left to the next prune, and so it is if the caller rolls back."""
    held, other = old(**QUEUED, dedup_id="a", dedup_hold="finished"), old()
    with caller() as one:
        one.begin()
        assert one.do(lambda: door().dispatch(1, 2).outcome) == "added"
        assert prune() == {"succeeded": 1}
        assert row(other) is None
        one.rollback()
    assert row(held)["dedup_id"] == "a"
    assert prune() == {"succeeded": 1}


@has_row_locks
def test_a_dispatch_waits_for_no_more_than_a_step():
    """One that finds a row which is being removed gets a new job once that is committed."""
    old(**QUEUED, dedup_id="a", dedup_hold="finished")
    with (
        paused(removal, "delete_leftovers", after=True) as pause,
        in_thread(prune) as pruner,
    ):
        pause.wait()
        with caller() as one:
            waiting = one.start(lambda: door().dispatch(1, 2).outcome)
            one.wait_until_sent("leasequeue_job")
            pause.resume()
            assert waiting.result(DEADLINE) == "added"
        assert pruner.result() == {"succeeded": 1}
    assert [values["dedup_id"] for values in table().values()] == ["a"]


def test_dispatches_of_ids_that_are_being_pruned(monkeypatch):
    """Every id ends up with one new job, whoever came first, and nobody sees an error."""
    monkeypatch.setattr(pruning, "ROWS", 4)
    names = [f"id-{number}" for number in range(20)]
    for _ in range(2):
        Job.objects.all().delete()
        for name in names:
            old(**QUEUED, dedup_id=name, dedup_hold="finished")
        calls = [
            lambda step=step: [door(name).dispatch(1, 2) for name in names[::step]]
            for step in (1, -1)
        ]
        first, second, *removed = run_together([*calls, prune, prune])
        outcomes = {}
        for job, outcome in [*first, *second]:
            outcomes.setdefault(job.dedup_id, []).append(outcome)
        assert all(
            sorted(found) == ["added", "skipped"] for found in outcomes.values()
        ), outcomes
        assert set(outcomes) == set(names)
        assert sum(removed, Counter()).total() + prune().total() == len(names)
        left = table().values()
        assert sorted(values["dedup_id"] for values in left) == sorted(names)
        assert {values["status"] for values in left} == {"pending"}


# --- Workers


@has_row_locks
def test_167_workers_go_on_beside_a_prune():
    """Case 167: claims, outcomes and dispatches wait for nothing that prune has locked."""
    for _ in range(20):
        old()
    JobFactory.create_batch(3)
    [first, *_] = claim(1)
    with (
        paused(removal, "delete_leftovers", after=True) as pause,
        in_thread(prune) as pruner,
    ):
        pause.wait()
        with caller() as one:
            assert one.do(lambda: len(claim(1))) == 1
            [settled] = one.do(lambda: Job.objects.settle([(first, Succeeded("3"))]))
            assert settled.verdict.value == "written"
            assert one.do(lambda: Job.objects.renew(first.token)) == (set(),) * 3
            assert one.do(lambda: door().dispatch(1, 2).outcome) == "added"
        pause.resume()
        assert pruner.result() == {"succeeded": 20}
    assert row(first)["status"] == "succeeded"


def test_167_jobs_that_end_while_many_are_pruned(monkeypatch, settings):
    """Case 167: every outcome is stored, and no job that has not finished is removed."""
    monkeypatch.setattr(pruning, "ROWS", 5)
    settings.LEASEQUEUE = {"RETENTION": {"succeeded": {"count": 5}}}
    JobFactory.create_batch(30)
    done = threading.Event()

    def work():
        try:
            while jobs := claim(4):
                settled = Job.objects.settle([(job, Succeeded("3")) for job in jobs])
                assert {one.verdict.value for one in settled} <= {"written"}
        finally:
            done.set()

    def keep_pruning():
        total = Counter()
        while not done.is_set():
            total += prune()
        return total

    _, removed = run_together([work, keep_pruning])
    assert (removed + prune()).total() == 25
    assert {values["status"] for values in table().values()} == {"succeeded"}


# --- Prunes


def test_two_prunes_at_once(monkeypatch):
    """Each row is removed and counted once."""
    monkeypatch.setattr(pruning, "ROWS", 4)
    for _ in range(40):
        old()
    counts = run_together([prune, prune, prune])
    assert sum(counts, prune()).total() == 40
    assert table() == {}


# --- Other people's locks


@has_row_locks
def test_locked_rows_are_left():
    """Fails, by the deadline, without SKIP LOCKED."""
    first, busy, last = old(), old(), old()
    with locked([busy]):
        assert prune() == {"succeeded": 2}
        assert set(table()) == {busy.pk}
    assert prune() == {"succeeded": 1}
    assert not table().keys() & {first.pk, last.pk}


@pytest.mark.skipif(
    "connection.vendor != 'mysql'", reason="elsewhere an entry of an index has no lock"
)
def test_an_id_that_somebody_was_told_is_taken():
    """InnoDB locks its entry until their transaction ends: that row is left, others go."""
    old(dedup_id="a", dedup_hold="finished")
    old(dedup_id="b", dedup_hold="finished")
    with caller() as one:
        one.begin()
        one.do(lambda: _told_taken("a"))
        assert prune() == {"succeeded": 1}
        assert [values["dedup_id"] for values in table().values()] == ["a"]
    assert prune() == {"succeeded": 1}
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout")
        assert cursor.fetchone()[0] > 1


def _told_taken(dedup_id):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT queue, dedup_id FROM leasequeue_job FORCE INDEX (leasequeue_dedup) "
            "WHERE queue = 'default' AND dedup_id = %s LOCK IN SHARE MODE",
            [dedup_id],
        )
        assert len(cursor.fetchall()) == 1


# --- All at once


def test_a_storm_on_three_ids_whose_jobs_are_not_kept(settings):
    """Dispatchers, workers and prunes: no error, and one run for each job that was added."""
    settings.LEASEQUEUE = {"RETENTION": 0}
    dispatched, added, ran = threading.Event(), [], Counter()

    def dispatch():
        for number in range(40):
            job, outcome = door(f"id-{number % 3}").dispatch(1, 2)
            if outcome == "added":
                added.append(job.pk)

    def work():
        while not dispatched.is_set() or Job.objects.exists():
            for job in claim(2):
                ran[job.id] += 1
                verdict = "busy"
                while verdict == "busy":
                    [settled] = Job.objects.settle([(job, Succeeded("3"))])
                    verdict = settled.verdict.value
                assert verdict == "written"
            prune()

    with in_thread(lambda: run_together([work] * 3)) as workers:
        try:
            run_together([dispatch] * 4)
        finally:
            dispatched.set()
        workers.result(2 * DEADLINE)
    assert ran == Counter(dict.fromkeys(added, 1))
    assert len(ran) >= 3
    assert table() == {}
