"""Locks, and what a statement sees: asked for, and then seen with a second connection."""

import contextlib
import datetime as dt
import uuid

import pytest
from django.db import connection, connections, transaction

from django_leasequeue import db
from django_leasequeue.db.transactions import read_committed
from django_leasequeue.models import Job
from tests.factories import JobFactory
from tests.helpers import in_thread
from tests.models import Effect
from tests.road import isolation, statements

transactional = pytest.mark.django_db(transaction=True)


@pytest.fixture
def row_locks(db):
    if not connection.features.has_select_for_update:
        pytest.skip("no row locks")


def rows():
    return Job._base_manager.using("default")


def run(sql, of=connection):
    with of.cursor() as cursor:
        cursor.execute(sql)


def lock(job, of):
    """Lock a job's row in a transaction of another connection, which goes on."""
    of.set_autocommit(False)
    run(f"SELECT id FROM leasequeue_job WHERE id = {job.pk} FOR UPDATE", of)


# --- Found by key and by a condition

CONDITIONS = [
    {"status": "running"},
    {"status": "running", "processing_until__gt": db.DatabaseNow()},
    {
        "status": "running",
        "processing_until__gt": db.DatabaseNow(dt.timedelta(hours=1)),
    },
    {"processing_token": None},
    {"processing_token": uuid.UUID(int=1), "priority__lt": 3},
    {"dedup_id": "a' OR 1 = 1 -- %s"},
    {},
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=range(len(CONDITIONS)))
def test_by_key_finds_the_same(condition):
    """The form in which the condition is sent changes nothing of what it means."""
    jobs = [
        JobFactory(),
        JobFactory(dedup_id="a' OR 1 = 1 -- %s"),
        JobFactory(leased=True, processing_token=uuid.UUID(int=1), priority=2),
        JobFactory(expired=True, processing_token=uuid.UUID(int=1), priority=3),
        JobFactory(succeeded=True),
    ]
    ids = [job.pk for job in jobs[:-1]]
    expected = set(rows().filter(pk__in=ids, **condition))
    assert set(db.by_key(rows(), ids, **condition)) == expected
    assert db.by_key(rows(), ids, **condition).update(priority=9) == len(expected)
    assert set(rows().filter(priority=9)) == expected
    assert not db.by_key(rows(), [], **condition)


# --- Locks


@transactional
def test_take_passes_over_locked_rows(row_locks, second_connection):
    """Rows that somebody else holds are left out, and the others are ours."""
    jobs = JobFactory.create_batch(3)
    lock(jobs[1], second_connection)
    with transaction.atomic():
        assert db.take(rows().order_by("pk")) == [jobs[0], jobs[2]]
    second_connection.rollback()


@transactional
def test_wait_for_waits(row_locks, second_connection):
    """It comes back with the row as whoever had it has left it."""
    job = JobFactory()
    lock(job, second_connection)

    def wait():
        with transaction.atomic():
            return db.wait_for(rows().filter(pk=job.pk))

    with in_thread(wait) as waiting:
        run("UPDATE leasequeue_job SET priority = 7", second_connection)
        assert waiting.is_running
        second_connection.commit()
        [seen] = waiting.result()
    assert seen.priority == 7


@transactional
def test_write_transaction_keeps_everybody_out(second_connection):
    """On SQLite from its start, so that what it reads can't change before it writes."""
    if connection.features.has_select_for_update:
        pytest.skip("only where there is one lock for all")
    JobFactory()
    run("PRAGMA busy_timeout = 0", second_connection)
    with db.write_transaction(rows()):
        assert db.keeps_others_out("default")
        with pytest.raises(Exception, match="locked"):
            run("UPDATE leasequeue_job SET priority = 7", second_connection)
    run("UPDATE leasequeue_job SET priority = 7", second_connection)
    assert not db.keeps_others_out("default")


@transactional
def test_write_transaction_keeps_nobody_out(row_locks, second_connection):
    with db.write_transaction(rows()):
        assert not db.keeps_others_out("default")
        JobFactory()
        run("UPDATE leasequeue_job SET priority = 7", second_connection)


# --- What a statement sees

LEVELS = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]


@contextlib.contextmanager
def transaction_of(level):
    if connection.vendor == "mysql":
        run(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    try:
        with transaction.atomic():
            if connection.vendor != "mysql":
                run(f"SET TRANSACTION ISOLATION LEVEL {level}")
            yield
    finally:
        if connection.vendor == "mysql":
            run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


@transactional
@pytest.mark.parametrize("level", LEVELS)
def test_reads_are_fresh(row_locks, second_connection, level):
    """As the server says, and as it turns out when somebody else commits meanwhile."""
    with transaction_of(level):
        assert Job.objects.count() == 0  # a snapshot is taken, if there is one
        fresh = db.reads_are_fresh(connections["default"])
        run("INSERT INTO tests_effect (name, pid) VALUES ('new', 1)", second_connection)
        seen = Effect.objects.exists()
        if connection.vendor == "mysql":
            assert db.locking_read_is_fresh(connection)
            assert Effect.objects.select_for_update().exists()
    if connection.vendor == "mysql":
        # Dirty reads see what may never be: no ground to decide anything on. SERIALIZABLE
        # reads with locks, so that it sees the newest but is not what was asked about.
        assert (fresh, seen) == (level == "READ COMMITTED", level != "REPEATABLE READ")
    else:
        assert not db.locking_read_is_fresh(connection)
        assert fresh == seen == level.startswith("READ")
    assert db.reads_are_fresh(connections["default"])


@transactional
def test_reads_are_fresh_outside_of_transactions():
    """Each statement is its own then, whatever the level."""
    assert db.reads_are_fresh(connections["default"])


@transactional
def test_read_committed_is_for_its_own_transaction(row_locks):
    """Not for those that its callbacks begin, nor for later ones."""
    seen = []

    def note():
        with transaction.atomic():
            seen.append(db.reads_are_fresh(connections["default"]))

    with isolation("repeatable read"):
        with read_committed("default"):
            transaction.on_commit(note)
        note()
        with contextlib.suppress(ZeroDivisionError), read_committed("default"):
            raise ZeroDivisionError
        note()
    assert seen == [False, False, False]


@transactional
def test_reads_without_autocommit(row_locks):
    """A transaction that was begun by turning autocommit off is one, too."""
    transaction.set_autocommit(False)
    try:
        assert db.reads_are_fresh(connections["default"])
        transaction.rollback()
        session = "SESSION " if connection.vendor == "mysql" else ""
        run(f"SET {session}TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert not db.reads_are_fresh(connections["default"])
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
        connection.close()


def test_a_row_that_is_gone_is_not_waited_for():
    """As one that is locked would be, for as long as the counting may take."""
    rows = Job.objects.all()
    with statements() as sent:
        counted = db.increment_if_free(
            rows, 10**9, "suppressed", "last_suppressed_at", 3600
        )
    assert not counted
    assert len(sent) <= 6
