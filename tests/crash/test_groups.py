"""Real workers, and jobs that wait for the last job of a group."""

import os
import signal

import pytest

from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.states import Status
from tests import tasks
from tests.helpers import DEADLINE, eventually
from tests.road import claim, row
from tests.workers import with_worker_tasks


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def after(group):
    return tasks.add.using(after_group=group).dispatch(1, 2).job


def assert_ran_once(job):
    values = row(job)
    # It may have been claimed ahead and given back, if that process was kept from going on.
    ran = values["attempts"], values["recoveries"]
    assert (values["status"], *ran) == (Status.SUCCEEDED, 1, 0)


def test_what_two_children_end_at_once(worker):
    """Groups of short jobs, whose last ones end in whichever child: each is followed once."""
    jobs = []
    for number in range(20):
        group = f"g{number}"
        for _ in range(4):
            tasks.add.using(group=group).dispatch(1, 2)
        jobs.append(after(group))
    process = worker("--processes=2", "--threads=2", "--drain")
    assert process.wait() == 0
    assert not Job.objects.exclude(status=Status.SUCCEEDED).exists()
    for job in jobs:
        assert_ran_once(job)


def test_a_last_job_that_kills_its_worker(worker, announcement):
    """Once it is stopped as the poison it is, its group is done."""
    tasks.announce_then_wait.using(group="g").dispatch(announcement.path)
    job = after("g")
    process = worker("--processes=1", "--threads=1")
    for _ in range(4):
        pid = int(announcement.wait())
        assert row(job)["blocked"]
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert Job.objects.group("g").counts()["failed"] == 1
    assert process.is_running


def test_a_process_that_dies_between_its_last_settle_and_its_look(worker):
    """The next one that starts looks for what it left."""
    tasks.add.using(group="g").dispatch(1, 2)
    job = after("g")
    Job.objects.settle([(held, Succeeded()) for held in claim()])
    assert row(job)["blocked"]
    worker("--in-process")
    assert Job.objects.get(pk=job.pk).wait(DEADLINE) == 3
    assert_ran_once(job)


def test_a_worker_that_is_told_to_stop_while_it_runs_the_last_job(worker, announcement):
    """It takes no job any more, but leaves the next worker one that may start."""
    tasks.announce_then_wait.using(group="g").dispatch(announcement.path)
    job = after("g")
    process = worker("--processes=1", "--shutdown-timeout=600")
    announcement.wait()
    process.send(signal.SIGTERM)
    process.wait_for("takes no more jobs: SIGTERM.")
    announcement.release()
    assert process.wait() == 0
    assert (row(job)["status"], row(job)["blocked"]) == (Status.PENDING, 0)


def test_an_idle_worker_runs_it_soon_after_a_cancel_by_hand(worker):
    later = tasks.add.using(group="g", delay=3600).dispatch(1, 2).job
    job = after("g")
    worker("--in-process").wait_for("runs jobs in this process")
    Job.objects.filter(pk=later.pk).cancel()
    assert Job.objects.get(pk=job.pk).wait(DEADLINE) == 3
