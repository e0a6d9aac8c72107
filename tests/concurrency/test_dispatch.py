"""Dispatches of many callers at once; what a dedup id adds to it is in test_dedup."""

import threading

import pytest
from django.db import connection, transaction

from django_leasequeue import db
from django_leasequeue.exceptions import DispatchConflict
from django_leasequeue.models import Job
from django_leasequeue.transitions.dispatch import insert
from tests.helpers import in_thread, run_together, together
from tests.models import Effect
from tests.road import claim, ids, isolation
from tests.tasks import add


def own_rows(number, answers):
    """Whether each answer's job is the row of its own spec, add(number, place), in order."""
    stored = dict(Job.objects.values_list("id", "args"))
    found = [stored.get(answer.job.id) for answer in answers]
    ascending = ids(answer.job for answer in answers)
    return found == [
        [number, place] for place in range(len(answers))
    ] and ascending == sorted(ascending)


@pytest.mark.parametrize("step", [1, 3])
def test_batches_at_once_get_their_own_ids(step, monkeypatch):
    """However the server deals out ids to several inserts at a time, each batch reads its own.

    Fails, on MySQL, with ids that are counted on from the first.
    """
    monkeypatch.setattr(insert, "ROWS", 20)

    def dispatch(number):
        if not connection.features.can_return_rows_from_bulk_insert:
            with connection.cursor() as cursor:
                cursor.execute(f"SET SESSION auto_increment_increment = {step}")
        return Job.objects.dispatch_many(add.spec(number, place) for place in range(90))

    batches = together(4, dispatch)
    assert Job.objects.count() == 4 * 90
    for number, answers in enumerate(batches):
        assert own_rows(number, answers)


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_single_dispatches_at_once(level):
    """Producers at any isolation level, alone and in transactions, hold each other up nowhere."""

    def dispatch(number):
        with isolation(level):
            for place in range(10):
                Job.objects.dispatch(add, [number, 2 * place])
                with transaction.atomic():
                    Effect.objects.create(name="order")
                    Job.objects.dispatch(add, [number, 2 * place + 1])

    together(4, dispatch)
    assert Job.objects.count() == 4 * 20
    assert Effect.objects.count() == 4 * 10


def test_105_a_polling_worker_never_runs_ahead_of_the_commit():
    """Whatever a worker claims, the data that was written before the dispatch is there.

    Fails if a dispatch does not go with the caller's transaction.
    """
    stop = threading.Event()

    def order():
        try:
            for number in range(30):
                try:
                    with transaction.atomic():
                        Job.objects.dispatch(add, [number, 0])
                        Effect.objects.create(name=f"order {number}")
                        if number % 3 == 0:
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    pass
        finally:
            stop.set()

    def poll():
        seen = []
        while not stop.is_set() or Job.objects.pending().exists():
            for job in claim(5):
                number = Job.objects.get(pk=job.id).args[0]
                assert Effect.objects.filter(name=f"order {number}").exists()
                seen.append(number)
        return seen

    _, seen = run_together([order, poll])
    assert seen == [number for number in range(30) if number % 3]


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="has one isolation level")
@pytest.mark.parametrize("many", [False, True])
def test_a_winner_that_the_callers_snapshot_hides(many):
    """At REPEATABLE READ the caller can't see who came first since its transaction began.

    Where a locking read can (InnoDB), the answer is that job; else (PostgreSQL) it is told
    to run its transaction again, at once, and the transaction stays usable.
    """

    def dispatch():
        if many:
            return Job.objects.dispatch_many([add.using(dedup="k").spec(1, 2)])[0]
        return Job.objects.dispatch(add, [1, 2], dedup="k")

    with isolation("repeatable read"):
        with transaction.atomic():
            assert not Job.objects.exists()  # takes the snapshot
            with in_thread(dispatch) as rival:
                winner = rival.result().job
            if db.locking_read_is_fresh(connection):
                answer = dispatch()
                assert (answer.job.id, answer.added) == (winner.id, False)
            else:
                with pytest.raises(DispatchConflict, match="snapshot can't see"):
                    dispatch()
            Effect.objects.create(name="after")
        assert dispatch().job.id == winner.id
    assert Job.objects.count() == Effect.objects.count() == 1
