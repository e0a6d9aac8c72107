"""Real workers whose database takes no writes for a while, as after a failover.

On PostgreSQL the server comes back as a standby and is promoted later; on MySQL and MariaDB
it becomes read-only under its open connections.
"""

import signal

import pytest
from django.db import connection

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import tasks, worker_tasks
from tests.helpers import eventually
from tests.road import row
from tests.workers import SETTINGS, statuses, with_worker_tasks

# Told that it can be renewed no more, a run has the buffer left.
SHORT = {**SETTINGS, "LEASE": 12, "SAFETY_BUFFER": 4}


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


class Failover:
    """What makes a server read-only, and writable again."""

    def __init__(self, server):
        self._server = server
        self._is_over = True

    def begin(self):
        self._is_over = False
        if connection.vendor == "mysql":
            self._switch(1)
            return
        connection.close()
        self._server.stop_process()
        (self._server.data / "standby.signal").touch()
        self._server.revive()

    def end(self):
        if self._is_over:
            return
        if connection.vendor == "mysql":
            self._switch(0)
        else:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_promote()")
        self._is_over = True

    def _switch(self, value):
        with connection.cursor() as cursor:
            cursor.execute("SET GLOBAL read_only = %s", [value])


@pytest.fixture
def failover(own_server):
    made = Failover(own_server[0])
    yield made
    made.end()


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
def test_an_outcome_is_kept_until_it_can_be_written(
    worker_process, own_server, failover, announcement, mode
):
    """Meanwhile the worker takes no work and does not exit."""
    job = tasks.announce_then_wait.dispatch(announcement.path, "kept").job
    process = worker_process(mode, "--threads=1", settings=SETTINGS, env=own_server[1])
    announcement.wait()
    later = tasks.add.dispatch(1, 1).job
    failover.begin()
    announcement.release()
    process.wait_for("Cannot store the outcomes of jobs now")
    process.wait_for("Cannot claim jobs now")
    assert (row(job)["status"], row(later)["status"]) == ("running", "pending")
    assert process.is_running
    failover.end()
    eventually(lambda: statuses()[Status.SUCCEEDED] == 2)
    values = row(job)
    assert values["result"] == "kept"
    assert (values["claims"], values["attempts"], values["recoveries"]) == (1, 1, 0)
    end(process)


def test_a_run_that_can_not_be_renewed_is_told_in_time_and_run_again(
    worker_process, own_server, failover, announcement
):
    job = worker_tasks.wait_until_lost.dispatch(announcement.path).job
    process = worker_process(settings=SHORT, env=own_server[1])
    announcement.wait()
    failover.begin()
    assert announcement.wait() == "lost"
    assert process.is_running
    failover.end()
    # Once its lease has ended: the worker itself takes it again.
    assert announcement.wait().endswith(" started")
    values = row(job)
    assert values["claims"] > 1
    assert (values["attempts"], values["recoveries"]) == (0, values["claims"] - 1)
    Job.objects.filter(pk=job.pk).delete()
    end(process)


def end(process):
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    process.assert_few_troubles()
    assert "Traceback" not in process.output
