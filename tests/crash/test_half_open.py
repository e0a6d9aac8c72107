"""Real workers whose line to the database is spoiled on the way, by a proxy."""

import signal

import pytest
from django.db import connection

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import tasks, worker_tasks
from tests.helpers import eventually
from tests.proxy import proxied
from tests.road import row
from tests.workers import SETTINGS, with_worker_tasks

SHORT = {"LEASE": 12, "SAFETY_BUFFER": 1}
# A statement may take 2 s, a sixth of the shortest lease (see worker.bounded), but no job is
# lost because a machine is busy.
LONG = {**SETTINGS, "QUEUES": {"short": SHORT}}


@pytest.fixture(autouse=True)
def known():
    if connection.vendor == "sqlite":
        pytest.skip("a file has no line to spoil")
    with with_worker_tasks():
        yield


@pytest.fixture
def through_a_proxy(worker_process):
    with proxied() as (proxy, environment):

        def start(*arguments, settings=LONG):
            return worker_process(*arguments, settings=settings, env=environment), proxy

        yield start


def end(process):
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert "Traceback" not in process.output


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
def test_an_outcome_is_stored_though_every_open_connection_is_dead(
    through_a_proxy, announcement, mode
):
    """Nobody is told that they are; only the worker's own clock says so."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process, proxy = through_a_proxy(mode)
    announcement.wait()
    proxy.swallow()
    proxy.forward()
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    values = row(job)
    assert (values["claims"], values["attempts"], values["recoveries"]) == (1, 1, 0)
    later = tasks.record_effect.dispatch("later").job
    eventually(lambda: row(later)["status"] == Status.SUCCEEDED)
    end(process)


def test_a_run_is_told_that_its_lease_can_not_be_known(through_a_proxy, announcement):
    """Nothing comes through any more: before the lease ends the run is aborted."""
    job = worker_tasks.wait_until_lost.dispatch(announcement.path).job
    process, proxy = through_a_proxy(settings={**SETTINGS, **SHORT})
    announcement.wait()
    proxy.swallow()
    assert announcement.wait() == "lost"
    assert process.is_running
    assert row(job)["status"] == Status.RUNNING
    proxy.forward()
    # Nobody has it: it is this worker that runs it again, from its old connection's end.
    values = eventually(lambda: (v := row(job))["claims"] > 1 and v)
    assert values["recoveries"] == values["claims"] - 1
    Job.objects.filter(pk=job.pk).delete()
    end(process)


def test_a_worker_starts_on_a_dead_line_and_works_once_it_is_not(worker_process):
    """What it asks the database before it starts is not waited for without end, either."""
    with proxied() as (proxy, environment):
        proxy.swallow()
        process = worker_process(settings=LONG, env=environment)
        process.wait_for("The worker starts")
        assert "The database does not answer yet" in process.output
        proxy.forward()
        job = tasks.record_effect.dispatch("later").job
        eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
        end(process)


@pytest.mark.parametrize("trouble", ["refuse", "cut"])
def test_097_098_an_outage_ends_no_worker_and_no_run(
    through_a_proxy, announcement, trouble
):
    """Few lines, no exit; the run goes on, and work does when the database is back."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process, proxy = through_a_proxy("--processes=2")
    announcement.wait()
    getattr(proxy, trouble)()
    if trouble == "refuse":
        process.wait_for("Cannot claim jobs now")
    announcement.release()
    proxy.forward()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert (row(job)["claims"], row(job)["recoveries"]) == (1, 0)
    assert "was lost" not in process.output
    process.assert_few_troubles()
    end(process)
