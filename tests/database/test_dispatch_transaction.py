"""Dispatch in transactions: it goes with the caller's, and what trouble in them means."""

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from django_leasequeue import db
from django_leasequeue.models import Job
from tests.factories import JobFactory
from tests.helpers import failing, in_thread
from tests.models import Effect
from tests.road import (
    claim,
    connection_lost,
    deadlock,
    ids,
    lock_wait,
    row,
    statements,
    table,
)
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def dispatch(*args, task=add, **options):
    return Job.objects.dispatch(task, args or (1, 2), **options)


# --- The caller's transaction


@pytest.mark.parametrize("dedup", [None, "k"])
def test_105_not_before_the_commit(dedup):
    """Other connections see and claim the job only once its data is there."""
    with transaction.atomic():
        effect = Effect.objects.create(name="order")
        job = dispatch(dedup=dedup).job
        with in_thread(lambda: (claim(), Job.objects.count())) as other:
            assert other.result() == ([], 0)
    with in_thread(lambda: (ids(claim()), Effect.objects.get().pk)) as other:
        assert other.result() == ([job.id], effect.pk)


@pytest.mark.parametrize("dedup", [None, "k"])
def test_105_never_after_a_rollback(dedup):
    """It is gone with the caller's other writes."""
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Effect.objects.create(name="order")
        dispatch(dedup=dedup)
        raise ZeroDivisionError
    assert claim() == []
    assert table() == {}
    assert not Effect.objects.exists()


@pytest.mark.parametrize("dedup", [None, "k"])
def test_106_a_failed_insert_is_raised_inside_the_block(dedup):
    """The caller hears of it before the commit, and everything goes back together."""
    full = DatabaseError("disk full")
    with pytest.raises(DatabaseError, match="disk full"), transaction.atomic():
        Effect.objects.create(name="order")
        with failing(full, match="INSERT INTO"):
            dispatch(dedup=dedup)
    assert table() == {}
    assert not Effect.objects.exists()


def test_031_the_id_is_free_after_a_rollback():
    """Of the whole block or of a savepoint in it: added both times."""
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        dispatch(dedup="k")
        raise ZeroDivisionError
    assert dispatch(dedup="k").added
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            assert dispatch(dedup="j").added
            raise ZeroDivisionError
        assert dispatch(dedup="j").added
    assert len(table()) == 2


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_018_a_duplicate_does_not_poison_the_block(depth):
    """The block goes on after it, and commits: one job, one row of the app's own."""

    def work(left):
        with transaction.atomic():
            if left > 1:
                return work(left - 1)
            first = dispatch(dedup="k")
            second = dispatch(dedup="k")
            Effect.objects.create(name="after")
        return first, second

    first, second = work(depth)
    assert (first.outcome, second.outcome) == ("added", "skipped")
    assert second.job.id == first.job.id
    assert len(table()) == 1
    assert Effect.objects.count() == 1


def test_108_it_goes_with_its_own_database():
    """A rollback of another database does not touch it; one of its own does."""
    there = Job.objects.using("other")
    for here_fails, there_fails, kept in [(1, 0, True), (0, 1, False), (1, 1, False)]:
        try:
            with transaction.atomic(using="default" if here_fails else "other"):
                if here_fails and there_fails:
                    with transaction.atomic(using="other"):
                        there.dispatch(add, [1, 2])
                        raise ZeroDivisionError
                there.dispatch(add, [1, 2])
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert there.exists() == kept
        assert not Job.objects.exists()
        there.all().delete()


def test_other_database():
    """`using(alias)` and `using(database=alias)` store there, and answer from there."""
    here = dispatch(dedup="k").job
    there = Job.objects.using("other").dispatch(add, [1, 2], dedup="k")
    assert there.added
    assert there.job.run_at == row(there.job, using="other")["run_at"]
    again = add.using(database="other", dedup="k").dispatch(1, 2)
    assert again.job.id == there.job.id
    assert not again.added
    assert set(table()) == {here.id}
    assert set(table(using="other")) == {there.job.id}


# --- Trouble


def _insert_fails(error, times):
    return failing(error, times=times, match="INSERT INTO")


@pytest.mark.parametrize("dedup", [None, "k"])
@pytest.mark.parametrize("error", [deadlock, lock_wait])
def test_passing_trouble_is_rerun(dedup, error):
    """Outside a transaction a deadlock is the queue's affair: the caller gets a job."""
    with _insert_fails(error(), 3) as refused:
        assert dispatch(dedup=dedup).added
    assert len(refused) == 3
    assert len(table()) == 1


@pytest.mark.parametrize("dedup", [None, "k"])
def test_passing_trouble_in_the_callers_transaction_is_raised(dedup):
    """There the database has undone more than the dispatch, so only the caller can rerun."""
    always = _insert_fails(deadlock(), 10**6)
    with pytest.raises(DatabaseError), transaction.atomic(), always as refused:
        dispatch(dedup=dedup)
    assert len(refused) == 1
    assert table() == {}


@pytest.mark.parametrize("dedup", [None, "k"])
def test_a_lost_connection_is_never_rerun(dedup):
    """It may have stored the job; a second one would run the task twice."""
    with (
        _insert_fails(connection_lost(), 10**6) as refused,
        pytest.raises(DatabaseError),
    ):
        dispatch(dedup=dedup)
    assert len(refused) == 1


@pytest.mark.parametrize("dedup", [None, "k"])
def test_another_violation_is_raised(dedup, monkeypatch):
    """A primary key that is taken, as after a restore, is not what a dispatch loops on."""
    taken = JobFactory()
    insert = db.insert_row
    monkeypatch.setattr(
        db,
        "insert_row",
        lambda rows, new, texts: insert(rows, {**new, "id": taken.pk}, texts),
    )
    with statements() as seen, pytest.raises(IntegrityError):
        dispatch(dedup=dedup)
    assert len([sql for sql in seen if sql.startswith("INSERT")]) == 1
    assert set(table()) == {taken.pk}


def test_011_a_stale_read_of_the_caller_is_told_at_once():
    """SQLite can't let a transaction write that has read before somebody else wrote.

    The caller gets the database's error at once, nothing is half done, and the transaction
    run again goes through. Elsewhere there is no such trouble.
    """
    connection.ensure_connection()
    deferred = connection.vendor == "sqlite"
    usual = connection.transaction_mode if deferred else None
    if deferred:
        connection.transaction_mode = None

    def order(meanwhile):
        with transaction.atomic():
            assert not Effect.objects.filter(name="order").exists()
            meanwhile()
            Effect.objects.create(name="order")
            dispatch(dedup="k")

    def other():
        with in_thread(lambda: dispatch(dedup="j")) as done:
            assert done.result().added

    try:
        if deferred:
            with pytest.raises(DatabaseError, match="locked"):
                order(other)
            assert Effect.objects.count() == 0
            assert [job.dedup_id for job in Job.objects.all()] == ["j"]
            order(lambda: None)
        else:
            order(other)
    finally:
        if deferred:
            connection.transaction_mode = usual
    assert {job.dedup_id for job in Job.objects.all()} == {"j", "k"}
    assert Effect.objects.count() == 1
