"""worker.watch and db.changes: noticing that somebody has written, and looking for no more."""

import os
from pathlib import Path

import pytest
from django.db import connection

from django_leasequeue import clock, db
from django_leasequeue.conf import conf
from django_leasequeue.db import changes
from django_leasequeue.worker import rest, watch
from django_leasequeue.worker.wakeup import Wakeup
from django_leasequeue.worker.watch import Watch
from tests.helpers import DEADLINE, eventually, in_thread
from tests.tasks import add
from tests.workers import options

pytestmark = pytest.mark.django_db(transaction=True)
FOR_EVER = 10 * DEADLINE
HAS_MARK = connection.vendor != "postgresql"
needs_mark = pytest.mark.skipif(not HAS_MARK, reason="this database tells")


@pytest.fixture
def watched():
    return Watch("default", Wakeup())


def look():
    """Do what a look does: ask the database something."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()


def settle_down(watched):
    """Go on until nothing has changed lately."""
    look()
    watched.sleep(0)
    look()


def unchanged_mark(marks, looks=2):
    """Return a mark that was the same for so many looks; others may be at work on the server."""

    def one():
        seen = {marks.read() for _ in range(looks)}
        return seen if len(seen) == 1 else None

    [mark] = eventually(one)
    return mark


def dispatch_elsewhere():
    with in_thread(lambda: add.dispatch(1, 2)) as background:
        background.result()


@needs_mark
def test_the_mark_differs_once_somebody_has_written(second_connection):
    marks = db.Marks("default")
    former = unchanged_mark(marks)
    with second_connection.cursor() as cursor:
        cursor.execute("INSERT INTO tests_effect (name, pid) VALUES ('a', 1)")
    assert marks.read() != former


@needs_mark
def test_asking_for_the_mark_does_not_change_it():
    """Though MySQL counts it among its statements."""
    unchanged_mark(db.Marks("default"), looks=10)


@needs_mark
def test_marks_of_two_connections_differ():
    marks = db.Marks("default")
    former = marks.read()
    connection.close()
    assert marks.read() != former


def quiet(marks):
    """Go on until the database is not asked any more."""

    def still():
        marks.read()
        return marks.is_still()

    eventually(still)


@pytest.fixture
def file_marks(monkeypatch):
    """Marks of a database in a file, which nobody has written to lately."""
    if connection.vendor != "sqlite":
        pytest.skip("a server has no file to look at")
    monkeypatch.setattr(changes, "_COMMITTED_IN", 0.1)
    marks = db.Marks("default")
    quiet(marks)
    return marks


def test_a_file_that_is_not_written_to_is_not_asked(file_marks, second_connection):
    with second_connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM tests_effect")
    assert file_marks.is_still()
    with second_connection.cursor() as cursor:
        cursor.execute("INSERT INTO tests_effect (name, pid) VALUES ('a', 1)")
    assert not file_marks.is_still()
    quiet(file_marks)


def test_a_file_is_asked_until_what_was_written_is_committed(file_marks, monkeypatch):
    """Its time may be that of the write, and stay the same when that is committed."""
    former = file_marks.read()
    monkeypatch.setattr(changes, "_COMMITTED_IN", FOR_EVER)
    log = Path(file_marks._file)
    os.utime(log)
    for _ in range(3):
        assert not file_marks.is_still()
        assert file_marks.read() == former
    seen = log.stat().st_mtime_ns
    dispatch_elsewhere()
    os.utime(log, ns=(seen, seen))
    assert not file_marks.is_still()
    assert file_marks.read() != former
    quiet(file_marks)


@needs_mark
def test_a_dispatch_ends_the_sleep(watched):
    settle_down(watched)
    with in_thread(dispatch_elsewhere):
        watched.sleep(FOR_EVER)


@needs_mark
def test_what_was_written_since_the_look_is_noticed(watched):
    """Before the sleep begins, so that only the marks of before and after can tell."""
    if connection.vendor != "sqlite":
        pytest.skip(
            "there the look itself changes the mark; the next poll finds the job"
        )
    settle_down(watched)
    dispatch_elsewhere()
    watched.sleep(FOR_EVER)


@needs_mark
def test_a_server_is_looked_at_twice(watched):
    """Its count rises before what is counted has been committed."""
    if connection.vendor == "sqlite":
        pytest.skip("there only commits count")
    settle_down(watched)
    with in_thread(dispatch_elsewhere):
        watched.sleep(FOR_EVER)
    look()
    watched.sleep(FOR_EVER)


@needs_mark
def test_looks_for_other_programs_statements_are_limited(watched, monkeypatch):
    if connection.vendor == "sqlite":
        pytest.skip("its mark changes by writes alone")
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    watched.found()
    assert all(watched._may_look() for _ in range(int(watch._LOOKS)))
    watched._looked_at = now
    assert not watched._may_look()
    watched._looked_at -= 1 / watch._LOOKS_A_SECOND
    assert watched._may_look()
    assert not watched._may_look()
    watched.found()
    assert watched._may_look()


@needs_mark
@pytest.mark.parametrize("mark", [None, 7])
def test_without_a_mark_to_rely_on_it_polls(watched, monkeypatch, mark):
    """A driver without one, and a proxy that answers for a server which it does not ask."""
    monkeypatch.setattr(watched._marks, "read", lambda: mark)
    if connection.vendor == "sqlite" and mark == 7:
        pytest.skip("there is no proxy before a file")
    watched._found_at = clock.now() - FOR_EVER
    assert watched.interval == watch.SAFETY_NET
    watched.sleep(0)
    watched.sleep(0.001)
    assert watched.interval == conf.poll_interval


@needs_mark
def test_trouble_with_the_database_ends_the_sleep(watched, monkeypatch):
    """The look that follows deals with it."""

    def lost():
        raise db_error

    db_error = ConnectionError("as the test asked")
    settle_down(watched)
    monkeypatch.setattr(watched._marks, "read", lost)
    watched.sleep(FOR_EVER)


# --- Which bell there is


@pytest.mark.parametrize(
    ("changes", "settings_", "expected"),
    [
        ({}, {}, "Watch" if HAS_MARK else "Listener"),
        ({"drain": True}, {}, "Silent"),
        ({}, {"NOTIFY": False}, "Watch" if HAS_MARK else "Silent"),
    ],
)
def test_the_bell_of_each_database(settings, changes, settings_, expected):
    settings.LEASEQUEUE = settings_
    bell = rest._bell(options(**changes), Wakeup())
    assert type(bell).__name__ == expected
    bell.close()


@pytest.mark.django_db(transaction=False)
def test_in_somebodys_transaction_nothing_rings():
    """Nothing of others can be seen in it, nor can others be told of what is in it."""
    bell = rest._bell(options(), Wakeup())
    assert type(bell).__name__ == "Silent"
    assert bell.interval == conf.poll_interval


def test_shared_sessions_and_psycopg2_are_not_listened_on(monkeypatch):
    if HAS_MARK:
        pytest.skip("nothing to listen to")
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    assert not db.can_listen(connection)
    monkeypatch.undo()
    assert db.can_listen(connection)
    monkeypatch.setattr("django.db.backends.postgresql.psycopg_any.is_psycopg3", False)
    assert not db.can_listen(connection)


def test_a_busy_server_does_not_spoil_the_first_question():
    """What others send between its first questions was taken for these, for good."""
    if connection.vendor != "mysql":
        pytest.skip("no other database counts statements")
    marks = db.Marks("default")
    ask = marks._ask

    def beside_others(driver):
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return ask(driver)

    marks._ask = beside_others
    marks.read()
    assert marks._counted == (0 if connection.mysql_is_mariadb else 1)
