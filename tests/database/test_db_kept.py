"""Statements that PostgreSQL keeps for a session, where the session is the worker's own."""

from contextlib import nullcontext
from unittest import mock

import pytest
from django.db import NotSupportedError, connection, connections

from django_leasequeue import db
from django_leasequeue.db import kept
from django_leasequeue.models import Job
from django_leasequeue.worker.bounded import Bounded
from tests.factories import JobFactory
from tests.helpers import in_thread
from tests.road import claim, statements
from tests.tasks import add

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        connection.vendor != "postgresql", reason="kept by PostgreSQL alone"
    ),
]


def looked(times, queues=None, block=Bounded):
    """Look for jobs so often in a session; return the last lanes and what it keeps."""

    def look():
        with block("default"):
            for _ in range(times):
                found = db.lanes(Job._meta.db_table, "default", queues)
            with connections["default"].cursor() as cursor:
                cursor.execute("SELECT statement FROM pg_prepared_statements")
                return found, [sql for (sql,) in cursor.fetchall()]

    with in_thread(look) as looks:
        return looks.result()


def test_a_worker_has_its_look_kept():
    JobFactory(queue="a%s", priority=-3)
    for queues in (None, ["b", "a%s"]):
        found, statements = looked(5, queues)
        assert [(lane.queue, lane.priority) for lane in found] == [("a%s", -3)]
        [statement] = statements
        assert "WITH RECURSIVE lanes" in statement


@pytest.mark.parametrize("slow", [0, 1e9])
def test_a_plan_for_a_small_table_is_made_anew_once_it_takes_long(monkeypatch, slow):
    """It would go on reading every row until somebody analyzes the table."""
    monkeypatch.setattr(kept, "_SLOW", slow)
    monkeypatch.setattr(kept, "_ANEW_EVERY", 0)
    JobFactory()

    def look():
        with Bounded("default"), connections["default"].cursor() as cursor:

            def way():
                db.lanes(Job._meta.db_table, "default")
                cursor.execute("SELECT name FROM pg_prepared_statements")
                ((name,),) = cursor.fetchall()
                cursor.execute(f"EXPLAIN EXECUTE {name}")
                return "\n".join(line for (line,) in cursor.fetchall())

            cursor.execute(f"VACUUM ANALYZE {Job._meta.db_table}")
            for _ in range(2):
                db.lanes(Job._meta.db_table, "default")
            small = way()
            Job.objects.dispatch_many(add.spec(1, 2) for _ in range(1000))
            return small, way()

    with in_thread(look) as looks:
        small, grown = looks.result()
    assert "Seq Scan on leasequeue_job" in small
    assert ("Seq Scan on leasequeue_job" in grown) == (slow > 0)


@pytest.fixture
def altered():
    """Returns what has a migration alter the type of a column that statements return."""

    def alter(length):
        with connections["default"].cursor() as cursor:
            sql = f"ALTER TABLE {Job._meta.db_table} ALTER queue TYPE varchar({length})"
            cursor.execute(sql)

    def elsewhere():
        with in_thread(lambda: alter(120)):
            pass

    yield elsewhere
    alter(100)


def test_over_a_slow_line_no_more_is_sent(monkeypatch):
    """What always takes long is not planned anew each time."""
    monkeypatch.setattr(kept, "_SLOW", 0)

    def look():
        with Bounded("default"), statements() as sent:
            for _ in range(5):
                db.lanes(Job._meta.db_table, "default")
        return sent

    with in_thread(look) as looks:
        assert looks.result().count("DISCARD PLANS") == 1


def test_a_look_goes_on_after_a_column_was_altered(altered):
    JobFactory(queue="a")

    def look():
        with Bounded("default"):
            for _ in range(5):
                [_] = db.lanes(Job._meta.db_table, "default")
            altered()
            [_] = db.lanes(Job._meta.db_table, "default")

    with in_thread(look) as looks:
        looks.result()


def test_a_claim_is_kept_until_a_column_is_altered(altered):
    """Then it fails once; whoever claims tries again."""
    JobFactory.create_batch(6)

    def work():
        with Bounded("default"), connections["default"].cursor() as cursor:
            for _ in range(5):
                claim(1)
            cursor.execute("SELECT statement FROM pg_prepared_statements")
            kept = [sql for (sql,) in cursor.fetchall()]
            altered()
            with pytest.raises(NotSupportedError):
                claim(1)
            return kept, claim(1)

    with in_thread(work) as works:
        kept, jobs = works.result()
    assert any(sql.startswith("UPDATE") for sql in kept)
    assert len(jobs) == 1


def test_a_look_goes_on_in_a_new_session():
    """What was kept in the last one went with it."""
    JobFactory()

    def look():
        for _ in range(2):
            with Bounded("default"):
                [_] = db.lanes(Job._meta.db_table, "default")
            connections["default"].close()

    with in_thread(look) as looks:
        looks.result()


def test_a_shared_session_keeps_nothing(monkeypatch):
    """Behind a pooler, of which Django's own setting tells or its process ids do."""
    with mock.patch("psycopg.ConnectionInfo.backend_pid", 1):
        assert looked(5) == ([], [])
    shared = connections.settings["default"]
    monkeypatch.setitem(shared, "DISABLE_SERVER_SIDE_CURSORS", True)
    assert looked(5) == ([], [])


def test_a_projects_own_session_keeps_nothing():
    assert looked(5, block=nullcontext) == ([], [])
