"""What a running task says of its progress: guarded, throttled, seen at once."""

import signal
import uuid

import pytest
from django.db import connection

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.worker import progress_writer
from django_leasequeue.worker.progress_writer import ProgressWriter
from django_leasequeue.worker.running import Run
from tests import worker_tasks
from tests.claims import context_of
from tests.factories import JobFactory
from tests.helpers import eventually
from tests.road import claim, connection_lost, row
from tests.workers import SETTINGS, with_worker_tasks

TASKS = ["tell_progress", "tell_progress_atomically", "atell_progress"]


@pytest.fixture
def run(transactional_db):
    JobFactory()
    [job] = claim()
    return Run(job, None, context_of(job))


@pytest.fixture
def writer(monkeypatch):
    monkeypatch.setattr(progress_writer, "_EVERY", 0.01)
    made = ProgressWriter("default")
    yield made
    made.close(60)


def test_it_is_stored(run, writer):
    writer.put(run, '{"done":1}')
    eventually(lambda: row(run.job)["progress"] == {"done": 1})
    writer.put(run, '{"done":2}')
    eventually(lambda: row(run.job)["progress"] == {"done": 2})
    assert not run.context.lease_lost


def test_the_newest_word_is_written_and_those_between_are_not(run, monkeypatch):
    monkeypatch.setattr(progress_writer, "_EVERY", 3600)
    written, real = [], type(Job.objects.all()).progress

    def progress(self, job, text):
        written.append(text)
        return real(self, job, text)

    monkeypatch.setattr(type(Job.objects.all()), "progress", progress)
    writer = ProgressWriter("default")
    writer.put(run, "0")
    eventually(lambda: row(run.job)["progress"] == 0)
    for number in range(1, 50):
        writer.put(run, str(number))
    writer.close(60)
    assert written == ["0"]


def test_a_run_that_lost_its_lease_is_told(run, writer):
    Job.objects.filter(pk=run.job.id).update(processing_token=uuid.uuid4(), claims=2)
    writer.put(run, "1")
    eventually(lambda: run.context.lease_lost)
    assert row(run.job)["progress"] is None


def test_of_a_run_that_has_ended_nothing_is_written(run, writer):
    run.closed = True
    writer.put(run, "1")
    writer.close(60)
    assert row(run.job)["progress"] is None
    assert not run.context.lease_lost


def test_a_failure_is_no_matter(run, writer, monkeypatch):
    real, errors = type(Job.objects.all()).progress, [connection_lost()]

    def progress(self, job, text):
        if errors:
            raise errors.pop()
        return real(self, job, text)

    monkeypatch.setattr(type(Job.objects.all()), "progress", progress)
    writer.put(run, "1")
    eventually(lambda: not errors)
    writer.put(run, "2")
    eventually(lambda: row(run.job)["progress"] == 2)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
@pytest.mark.parametrize("name", TASKS)
def test_it_is_seen_while_the_task_runs(worker_process, announcement, name):
    """Of an atomic task too, whose own writes nobody sees yet."""
    if "atomically" in name and connection.vendor == "sqlite":
        pytest.skip("nothing can be written beside it")
    with with_worker_tasks():
        job = getattr(worker_tasks, name).dispatch(announcement.path).job
    process = worker_process(settings=SETTINGS)
    announcement.wait()
    told = {"done": 50, "total": 100, "text": "half"}
    eventually(lambda: row(job)["progress"] == told)
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert row(job)["progress"] == told
    process.send(signal.SIGTERM)
    assert process.wait() == 0
