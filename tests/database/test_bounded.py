"""The worker's own statements end, and what they need of a session can be left out."""

import re
import threading
from contextlib import nullcontext

import pytest
from django.db import DatabaseError, connection, connections, transaction

from django_leasequeue.models import Job
from django_leasequeue.worker import bounded
from django_leasequeue.worker.bounded import Bounded
from tests.factories import JobFactory
from tests.helpers import eventually, in_thread
from tests.road import claim, statements

pytestmark = pytest.mark.django_db(transaction=True)
SLEEP = {"postgresql": "SELECT pg_sleep(600)", "mysql": "SELECT SLEEP(600)"}
SESSION = {
    "postgresql": "SELECT current_setting('lock_timeout')",
    "mysql": "SELECT @@SESSION.wait_timeout",
}


@pytest.fixture(autouse=True)
def on_a_server(settings):
    if connection.vendor == "sqlite":
        pytest.skip("a file always answers")
    settings.LEASEQUEUE = {"LEASE": 6, "SAFETY_BUFFER": 1}


def ask(sql):
    with connections["default"].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_a_statement_that_does_not_end_is_cut_off():
    """And the next one is sent on a new connection."""

    mine = Bounded("default")

    def ask_again():
        try:
            with mine:
                return ask("SELECT 1")
        except DatabaseError:  # a busy server may take longer than it has time for
            connections["default"].close()

    def work():
        with pytest.raises(DatabaseError), mine:
            ask(SLEEP[connection.vendor])
        connections["default"].close()
        return eventually(ask_again)

    with in_thread(work) as worker:
        assert worker.result() == 1
    if connection.vendor == "postgresql":
        # There the server ends it, too, which nobody has told that its asker is gone.
        sleeping = (
            "SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'active' "
            "AND datname = current_database() AND query LIKE %s"
        )
        with connection.cursor() as cursor:

            def ended():
                cursor.execute(sleeping, ["SELECT pg_sleep%"])
                return cursor.fetchone()[0] == 0

            eventually(ended)


def test_in_somebodys_transaction_nothing_is_changed():
    with transaction.atomic(), Bounded("default"):
        assert connections["default"] not in bounded._prepared


def test_101_behind_a_pooler_nothing_is_set_on_the_session(monkeypatch):
    """By Django's own setting for one; on other people's sessions it would stay."""
    if connection.vendor != "postgresql":
        pytest.skip("MySQL has no such setting")

    def asked():
        with Bounded("default"):
            return ask(SESSION["postgresql"])

    with in_thread(asked) as usual:
        assert usual.result() == "1s"
    shared = connections.settings["default"]
    monkeypatch.setitem(shared, "DISABLE_SERVER_SIDE_CURSORS", True)
    with in_thread(asked) as pooled:
        assert pooled.result() == "0"


def test_101_no_verb_of_a_worker_needs_a_session(settings):
    """Whatever a transaction pooler gives it serves: no SET, no LISTEN, no session's lock."""
    # A lease that lasts: of one that has ended, little would be sent.
    settings.LEASEQUEUE = {}
    JobFactory.create_batch(2)
    with statements() as seen:
        first, second = claim()
        Job.objects.renew(first.token)
        Job.objects.progress(first, "1")
        Job.objects.release(first.token, [first.id], death="killed")
        Job.objects.cancel_requested([second.token])
        Job.objects.release(second.token)
    assert len(seen) > 8
    words = r"\b(SET SESSION|SET @|LISTEN|PREPARE|GET_LOCK|pg_advisory\w*|DECLARE)\b"
    assert not [sql for sql in seen if re.search(words, sql, re.IGNORECASE)]


def test_a_watchdog_that_can_not_be_started_is_started_by_the_next_call(monkeypatch):
    """A machine that has no more threads for a moment leaves no call without an end."""
    calls, started = dict(bounded._calls), []
    monkeypatch.setattr(bounded, "_watching", False)

    def start(thread):
        started.append(thread.name)
        if len(started) == 1:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    for expected in (pytest.raises(RuntimeError), nullcontext()):
        with expected, Bounded("default"):
            pass
    assert started == ["leasequeue-watchdog"] * 2
    assert bounded._calls == calls
