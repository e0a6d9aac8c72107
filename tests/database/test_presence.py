"""worker.presence: a worker's row, while it is there."""

import os
import socket

import pytest

from django_leasequeue import clock
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Worker
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.presence import BEAT_EVERY, Presence
from django_leasequeue.worker.stop import Level
from django_leasequeue.worker.tally import Tally
from tests.helpers import eventually, in_thread
from tests.workers import options


@pytest.fixture
def time(monkeypatch):
    time = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: time[0])
    return time


def test_the_row_tells_what_the_worker_is():
    Presence("host:1:a", options(queues="mail,*", exclude="slow,bulk")).beat()
    worker = Worker.objects.get()
    assert (worker.name, worker.host) == ("host:1:a", socket.gethostname())
    assert worker.pid == os.getpid()
    assert (worker.queues, worker.exclude) == (["mail", "*"], ["bulk", "slow"])
    assert "tests.tasks.add" in worker.tasks
    assert set(worker.versions) == {"python", "django", "django_leasequeue"}
    assert worker.started_at == worker.last_seen_at


def test_it_is_written_no_more_often_than_it_must(time, django_assert_num_queries):
    presence = Presence("a", options())
    presence.beat()
    with django_assert_num_queries(0):
        presence.beat()
    time[0] += BEAT_EVERY
    with django_assert_num_queries(1):
        presence.beat()
    worker = Worker.objects.get()
    assert worker.last_seen_at >= worker.started_at


def test_058_a_row_that_was_removed_is_made_again(time):
    presence = Presence("a", options())
    presence.beat()
    Worker.objects.all().delete()
    time[0] += BEAT_EVERY
    presence.beat()
    assert Worker.objects.get().name == "a"


def test_rows_of_workers_that_vanished_are_removed_a_day_later():
    for name, seconds in (("old", 90_000), ("lately", 80_000)):
        Presence(name, options()).beat()
        old = Worker.objects.filter(name=name)
        old.update(last_seen_at=DatabaseNow(-seconds))
    Presence("new", options()).beat()
    assert set(Worker.objects.values_list("name", flat=True)) == {"lately", "new"}


def test_it_goes_with_the_worker():
    first, second = Presence("a", options()), Presence("b", options())
    first.beat()
    second.beat()
    first.leave()
    assert Worker.objects.get().name == "b"


@pytest.mark.django_db(transaction=True)
def test_a_running_worker_has_a_row():
    worker = InProcess(options(), Tally())
    with in_thread(worker.run):
        eventually(Worker.objects.exists)
        worker.stop.request(Level.GRACEFUL, "the test is done")
    assert not Worker.objects.exists()
