"""worker.outage: sitting out trouble with the database."""

import logging

import pytest
from django.db import OperationalError, connections

from django_leasequeue.worker import outage as outages
from django_leasequeue.worker.outage import Outage
from tests.road import deadlock


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.DEBUG, "django_leasequeue.worker")
    return lambda: [(r.levelname, r.getMessage()) for r in caplog.records]


def test_098_an_outage_is_told_once_and_again_when_it_is_over(lines):
    outage = Outage("claim jobs", "default")
    pauses = [outage.failed(OperationalError("refused")) for _ in range(20)]
    outage.worked()
    outage.worked()
    assert pauses[0] <= 0.1
    assert 2.5 <= pauses[-1] <= 5
    assert [level for level, _ in lines()] == ["WARNING", "WARNING"]
    assert "Cannot claim jobs now" in lines()[0][1]
    assert "refused" in lines()[0][1]
    assert "after 20 tries" in lines()[1][1]


def test_a_long_outage_is_told_again(lines, monkeypatch):
    monkeypatch.setattr(outages, "_LOG_EVERY", 0)
    outage = Outage("claim jobs", "default")
    outage.failed(OperationalError("refused"))
    outage.failed(OperationalError("refused"))
    assert len(lines()) == 2


def test_010_passing_trouble_is_quiet_and_short(lines):
    outage = Outage("claim jobs", "default")
    assert outage.failed(deadlock()) <= 0.01
    outage.worked()
    assert [level for level, _ in lines()] == ["DEBUG"]


def test_the_broken_connection_is_closed(monkeypatch):
    closed = []
    monkeypatch.setattr(connections["default"], "close", lambda: closed.append(True))
    Outage("claim jobs", "default").failed(OperationalError("gone"))
    assert closed


def test_a_connection_that_can_not_even_be_closed_is_no_matter(monkeypatch):
    def close():
        raise OperationalError("gone")

    monkeypatch.setattr(connections["default"], "close", close)
    assert Outage("claim jobs", "default").failed(OperationalError("gone")) > 0


def test_152_statements_that_debug_keeps_are_forgotten():
    connections["default"].queries_log.append({"sql": "SELECT", "time": "0"})
    Outage("claim jobs", "default").worked()
    assert not connections["default"].queries_log
