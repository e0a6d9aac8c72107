"""Children that are replaced by fresh ones, between jobs and with nothing lost."""

import os
import signal
from collections import Counter

import pytest

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import tasks, worker_tasks
from tests.helpers import eventually
from tests.road import row
from tests.workers import gate, statuses, with_worker_tasks


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


@pytest.fixture
def runs(tmp_path):
    """Dispatch jobs that note the process that ran them; returns a Gate, which is open."""
    with gate(tmp_path) as opened:
        opened.open()
        yield opened


def note(runs, number):
    return [
        worker_tasks.pass_gate.dispatch(runs.path, "ran").job for _ in range(number)
    ]


def stop(process):
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_each_child_runs_so_many_jobs(worker, runs):
    note(runs, 12)
    process = worker("--processes=1", "--threads=2", "--max-jobs=5", "--drain")
    assert process.wait() == 0
    counts = Counter(pid for pid, _ in runs.runs())
    assert sum(counts.values()) == 12
    assert max(counts.values()) <= 5
    # More, if what was claimed and did not start at once was given back.
    assert len(counts) >= 3
    ran = set(Job.objects.values_list("status", "attempts", "recoveries"))
    assert ran == {("succeeded", 1, 0)}
    assert "was lost" not in process.output
    assert "takes no more jobs: it has run" in process.output


def test_a_long_job_goes_on_beside_the_next_child(worker, announcement, runs):
    """It is neither told to stop nor run again, and its slot has two processes at most."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker(
        "--processes=1", "--threads=2", "--max-jobs=2", "--shutdown-timeout=0"
    )
    old = announcement.wait()
    for number in (2, 4, 6):
        note(runs, 2)
        eventually(lambda number=number: len(runs.runs()) == number)
        assert len(process.children()) <= 2
    # Of two jobs of the first child the long one is one.
    assert Counter(pid for pid, _ in runs.runs())[old] <= 1
    assert row(job)["status"] == Status.RUNNING
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert (row(job)["claims"], row(job)["recoveries"]) == (1, 0)
    eventually(lambda: int(old) not in process.children())
    note(runs, 2)
    eventually(lambda: len(runs.runs()) == 8)
    stop(process)
    assert statuses() == {Status.SUCCEEDED: 9}


def test_one_that_is_killed_beside_the_next_child(worker, announcement, runs):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker("--processes=1", "--threads=2", "--max-jobs=2", "--drain")
    old = int(announcement.wait())
    note(runs, 1)
    eventually(lambda: len(process.children()) == 2)
    os.kill(old, signal.SIGKILL)
    assert int(announcement.wait()) != old
    announcement.release()
    assert process.wait() == 0
    assert (row(job)["status"], row(job)["claims"]) == (Status.SUCCEEDED, 2)
    assert statuses() == {Status.SUCCEEDED: 2}


def test_a_stop_waits_for_both(worker, announcement, runs):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker(
        "--processes=1", "--threads=2", "--max-jobs=2", "--shutdown-timeout=600"
    )
    announcement.wait()
    note(runs, 1)
    eventually(lambda: process.output.count("is ready as worker") == 2)
    process.send(signal.SIGTERM)
    eventually(lambda: len(process.children()) == 1)
    announcement.release()
    assert process.wait() == 0
    assert (row(job)["status"], row(job)["claims"]) == (Status.SUCCEEDED, 1)


def test_a_child_that_has_grown_too_large(worker, announcement, runs):
    """Not while it has run no job; and its running jobs end first, whatever it uses."""
    job = worker_tasks.grow.dispatch(announcement.path, 200).job
    process = worker("--processes=1", "--threads=2", "--max-memory=200")
    old = announcement.wait()
    note(runs, 1)
    process.wait_for("takes no more jobs: it uses more than 200 MiB of memory")
    eventually(lambda: len(process.children()) == 2)
    note(runs, 3)
    eventually(lambda: len(runs.runs()) == 4)
    assert old not in {pid for pid, _ in runs.runs()[1:]}
    assert row(job)["status"] == Status.RUNNING
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert row(job)["claims"] == 1
    eventually(lambda: len(process.children()) == 1)
    stop(process)
    assert "was lost" not in process.output
