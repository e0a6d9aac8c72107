"""worker.presence: a worker's row, while it is there."""

import os
import socket

import pytest

from django_leasequeue import clock, registry
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Worker
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.presence import BEAT_EVERY, Presence
from django_leasequeue.worker.stop import Level
from django_leasequeue.worker.supervisor import Supervisor
from django_leasequeue.worker.tally import Tally
from tests import tasks
from tests.helpers import eventually, in_thread, worker_environment
from tests.workers import options


@pytest.fixture
def time(monkeypatch):
    time = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: time[0])
    return time


def present(*names):
    presence = Presence(options())
    for name in names:
        presence.enter(name, 1, [])
    return presence


def test_the_row_tells_what_the_worker_is():
    presence = Presence(options(queues="mail,*", exclude="slow,bulk"))
    presence.enter("host:1:a", 77, ["tests.tasks.add"])
    presence.beat()
    worker = Worker.objects.get()
    assert (worker.name, worker.host) == ("host:1:a", socket.gethostname())
    assert worker.pid == 77
    assert (worker.queues, worker.exclude) == (["mail", "*"], ["bulk", "slow"])
    assert worker.tasks == ["tests.tasks.add"]
    assert set(worker.versions) == {"python", "django", "django_leasequeue"}
    assert worker.started_at == worker.last_seen_at


def test_it_is_written_no_more_often_than_it_must(time, django_assert_num_queries):
    presence = present("a")
    presence.beat()
    with django_assert_num_queries(0):
        presence.beat()
    time[0] += BEAT_EVERY
    with django_assert_num_queries(1):
        presence.beat()
    worker = Worker.objects.get()
    assert worker.last_seen_at >= worker.started_at


def test_058_a_row_that_was_removed_is_made_again(time):
    presence = present("a")
    presence.beat()
    Worker.objects.all().delete()
    time[0] += BEAT_EVERY
    presence.beat()
    assert Worker.objects.get().name == "a"


def test_rows_of_workers_that_vanished_are_removed_a_day_later():
    for name, seconds in (("old", 90_000), ("lately", 80_000)):
        present(name).beat()
        old = Worker.objects.filter(name=name)
        old.update(last_seen_at=DatabaseNow(-seconds))
    present("new").beat()
    assert set(Worker.objects.values_list("name", flat=True)) == {"lately", "new"}


def test_it_goes_with_the_worker():
    presence = present("a", "b")
    presence.beat()
    presence.leave("a")
    presence.beat()
    assert Worker.objects.get().name == "b"
    presence.close()
    assert not Worker.objects.exists()


def test_one_that_enters_later_is_shown_at_once(time):
    presence = present("a")
    presence.beat()
    presence.enter("b", 2, [])
    presence.beat()
    assert set(Worker.objects.values_list("name", flat=True)) == {"a", "b"}


@pytest.mark.django_db(transaction=True)
def test_a_running_worker_has_a_row():
    worker = InProcess(options(), Tally())
    with in_thread(worker.run):
        eventually(Worker.objects.exists)
        worker.stop.request(Level.GRACEFUL, "the test is done")
    assert not Worker.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_each_child_has_a_row_by_the_name_that_its_jobs_show(monkeypatch, announcement):
    monkeypatch.setattr(os, "environ", worker_environment({}))

    def no_module(*args):
        raise SystemExit("a module of tasks, where leases are renewed")

    monkeypatch.setattr(registry, "autodiscover", no_module)
    worker = Supervisor(options(processes=2), Tally())
    with in_thread(worker.run):
        job = tasks.announce_then_wait.dispatch(announcement.path).job
        pid = int(announcement.wait())
        eventually(lambda: Worker.objects.count() == 2)
        job.refresh_from_db()
        shown = Worker.objects.get(name=job.worker)
        assert shown.pid == pid
        assert "tests.tasks.announce_then_wait" in shown.tasks
        announcement.release()
        worker.stop.request(Level.GRACEFUL, "the test is done")
    assert not Worker.objects.exists()
