"""Real idle workers start a job because they are woken: no poll comes within the test."""

import os
import signal

import pytest
from django.db import connection, transaction

from django_leasequeue import db
from django_leasequeue.models import Job, Queue
from django_leasequeue.states import Status
from tests.helpers import DEADLINE, eventually
from tests.listening import all_sleep, holders
from tests.road import row
from tests.tasks import add
from tests.workers import SETTINGS, with_worker_tasks

# A look at every ten minutes: whatever a test waits for, it does not wait for that.
SELDOM = {**SETTINGS, "POLL_INTERVAL": 10 * DEADLINE}


@pytest.fixture(autouse=True)
def known():
    if connection.vendor == "postgresql":
        # Of the worker of the test before, which the server may yet have to notice.
        eventually(lambda: not holders())
    with with_worker_tasks():
        yield


@pytest.fixture
def idle(worker_process):
    """Start a worker that polls seldom, and return it when it has nothing more to do."""

    def start(*arguments, **settings):
        process = worker_process(*arguments, settings={**SELDOM, **settings})
        runs(process, add.dispatch(1, 2).job)
        if connection.vendor == "postgresql":
            eventually(holders)
        return process

    return start


def runs(process, job):
    def succeeded():
        assert process.is_running, process.output
        values = row(job)
        assert values["status"] == Status.SUCCEEDED, values
        return True

    eventually(succeeded)


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
def test_each_dispatch_wakes_an_idle_worker(idle, mode):
    process = idle(mode)
    for number in range(3):
        runs(process, add.dispatch(number, 2).job)
    many = Job.objects.dispatch_many([add.spec(1, number) for number in range(20)])
    for dispatched in many:
        runs(process, dispatched.job)


def test_a_dispatch_in_a_transaction_wakes_at_its_commit(idle):
    process = idle()
    with transaction.atomic():
        job = add.dispatch(1, 2).job
        if connection.vendor == "postgresql":
            # What the worker would be told, it would be told by now.
            eventually(holders)
        assert row(job)["claims"] == 0
    runs(process, job)


def test_a_delayed_job_starts_when_it_is_due(idle):
    """Its dispatch wakes the worker, which then sleeps until the job is due."""
    process = idle()
    job = add.using(delay=0.5).dispatch(1, 2).job
    runs(process, job)
    values = row(job)
    assert values["started_at"] >= values["run_at"]


def test_a_retry_by_hand_wakes_it(idle):
    """An update of the row, by whatever program, that makes a job due."""
    process = idle()
    job = add.using(delay=3600).dispatch(1, 2).job
    assert row(job)["status"] == Status.PENDING
    Job.objects.filter(pk=job.pk).update(run_at=db.DatabaseNow())
    runs(process, job)


def test_a_resume_wakes_it(idle):
    """Nothing of the job itself has changed."""
    process = idle()
    Queue.objects.pause("mail")
    job = add.using(queue="mail").dispatch(1, 2).job
    runs(process, add.dispatch(1, 2).job)
    assert row(job)["claims"] == 0
    if connection.vendor == "postgresql":
        eventually(all_sleep)
    Queue.objects.resume("mail")
    runs(process, job)


def test_without_notify_nobody_listens(worker_process):
    if connection.vendor != "postgresql":
        pytest.skip("no other database tells")
    off = {**SETTINGS, "NOTIFY": False, "POLL_INTERVAL": 0.05}
    process = worker_process("--processes=1", settings=off)
    for number in range(3):
        runs(process, add.dispatch(number, 2).job)
        assert holders() == set()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'"
            " AND datname = current_database()"
        )
        assert cursor.fetchone() == (0,)


def test_a_listener_that_is_cut_off_comes_back(idle):
    if connection.vendor != "postgresql":
        pytest.skip("no other database tells")
    process = idle()
    [former] = eventually(holders)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [former])
    eventually(lambda: holders() - {former})
    for number in range(3):
        runs(process, add.dispatch(number, 2).job)


def test_a_killed_worker_waits_no_longer(idle):
    """What it held belongs to its session, which ends with it."""
    if connection.vendor != "postgresql":
        pytest.skip("no other database tells")
    process = idle("--in-process")
    assert len(eventually(holders)) == 1
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not holders())


def test_two_idle_workers_share_what_comes(idle):
    first, second = idle(), idle()
    jobs = [add.dispatch(number, 2).job for number in range(20)]
    for job in jobs:
        runs(first, job)
    assert second.is_running, second.output
    # One may have been claimed ahead, and given back by a process that was kept from going on.
    assert {(row(job)["attempts"], row(job)["recoveries"]) for job in jobs} == {(1, 0)}
