"""worker.heartbeat: a worker's row, while it is there."""

import os
import socket

import pytest

from django_leasequeue import clock, discovery
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Worker
from django_leasequeue.worker.heartbeat import BEAT_EVERY, Heartbeat
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.stop import Level
from django_leasequeue.worker.supervisor import Supervisor
from tests import tasks
from tests.helpers import eventually, in_thread, worker_environment
from tests.workers import options


@pytest.fixture
def time(monkeypatch):
    time = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: time[0])
    return time


def present(*names):
    heartbeat = Heartbeat(options())
    for name in names:
        heartbeat.enter(name, 1, [])
    return heartbeat


def test_the_row_tells_what_the_worker_is():
    heartbeat = Heartbeat(options(queues="mail,*", exclude="slow,bulk"))
    heartbeat.enter("host:1:a", 77, ["tests.tasks.add"])
    heartbeat.beat()
    worker = Worker.objects.get()
    assert (worker.name, worker.host) == ("host:1:a", socket.gethostname())
    assert worker.pid == 77
    assert (worker.queues, worker.exclude) == (["mail", "*"], ["bulk", "slow"])
    assert worker.tasks == ["tests.tasks.add"]
    assert set(worker.versions) == {"python", "django", "django_leasequeue"}
    assert worker.started_at == worker.last_seen_at


def test_it_is_written_no_more_often_than_it_must(time, django_assert_num_queries):
    heartbeat = present("a")
    heartbeat.beat()
    with django_assert_num_queries(0):
        heartbeat.beat()
    time[0] += BEAT_EVERY
    with django_assert_num_queries(1):
        heartbeat.beat()
    worker = Worker.objects.get()
    assert worker.last_seen_at >= worker.started_at


def test_058_a_row_that_was_removed_is_made_again(time):
    heartbeat = present("a")
    heartbeat.beat()
    Worker.objects.all().delete()
    time[0] += BEAT_EVERY
    heartbeat.beat()
    assert Worker.objects.get().name == "a"


def test_rows_of_workers_that_vanished_are_removed_a_day_later():
    for name, seconds in (("old", 90_000), ("lately", 80_000)):
        present(name).beat()
        old = Worker.objects.filter(name=name)
        old.update(last_seen_at=DatabaseNow(-seconds))
    present("new").beat()
    assert set(Worker.objects.values_list("name", flat=True)) == {"lately", "new"}


def test_it_goes_with_the_worker():
    heartbeat = present("a", "b")
    heartbeat.beat()
    heartbeat.leave("a")
    heartbeat.beat()
    assert Worker.objects.get().name == "b"
    heartbeat.close()
    assert not Worker.objects.exists()


def test_one_that_enters_later_is_shown_at_once(time):
    heartbeat = present("a")
    heartbeat.beat()
    heartbeat.enter("b", 2, [])
    heartbeat.beat()
    assert set(Worker.objects.values_list("name", flat=True)) == {"a", "b"}


@pytest.mark.django_db(transaction=True)
def test_a_running_worker_has_a_row():
    worker = InProcess(options(), Progress())
    with in_thread(worker.run):
        eventually(Worker.objects.exists)
        worker.stop.request(Level.GRACEFUL, "the test is done")
    assert not Worker.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_each_child_has_a_row_by_the_name_that_its_jobs_show(monkeypatch, announcement):
    monkeypatch.setattr(os, "environ", worker_environment({}))

    def no_module(*args):
        raise SystemExit("a module of tasks, where leases are renewed")

    monkeypatch.setattr(discovery, "autodiscover", no_module)
    worker = Supervisor(options(processes=2), Progress())
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
