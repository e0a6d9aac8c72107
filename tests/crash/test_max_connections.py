"""Real workers on a server that has no connection left for them."""

import contextlib
import signal

import pytest
from django.db import OperationalError, connection

from django_leasequeue.states import Status
from tests import tasks
from tests.helpers import eventually
from tests.proxy import proxied
from tests.road import row
from tests.workers import SETTINGS, statuses, with_worker_tasks


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


# Whoever else is connected, but for the server's own.
OTHERS = {
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist "
    "WHERE user NOT IN ('system user', 'event_scheduler') AND id <> CONNECTION_ID()",
}


def is_alone():
    with connection.cursor() as cursor:
        cursor.execute(OTHERS[connection.vendor])
        return cursor.fetchone()[0] == 0


@contextlib.contextmanager
def all_connections():
    """Hold every connection that the server has left."""
    held = []
    # The server need not have noticed yet who has gone.
    eventually(is_alone)
    try:
        with contextlib.suppress(OperationalError):
            while True:
                held.append(connection.copy())
                held[-1].ensure_connection()
        yield
    finally:
        for one in held:
            one.close()


def test_no_connection_left_ends_no_worker_and_no_run(
    worker_process, own_server, announcement
):
    """It takes no work then, keeps the outcome, and goes on when there are connections."""
    job = tasks.announce_then_wait.dispatch(announcement.path, "kept").job
    _, direct = own_server
    with proxied(direct) as (proxy, through):
        environment = {**direct, **through}
        process = worker_process("--threads=1", settings=SETTINGS, env=environment)
        announcement.wait()
        later = tasks.add.dispatch(1, 1).job
        # Its own connections end, and before it can open others there are none.
        proxy.refuse()
        with all_connections():
            proxy.forward()
            announcement.release()
            # Until now this thread of the worker has not asked for one.
            process.wait_for("Cannot store the outcomes of jobs now")
            said = process.output.partition("Cannot store")[2].partition("\n")[0]
            assert "too many" in said.lower()
            process.wait_for("Cannot claim jobs now")
            assert (row(job)["status"], row(later)["status"]) == ("running", "pending")
            assert process.is_running
        eventually(lambda: statuses()[Status.SUCCEEDED] == 2)
        values = row(job)
        assert values["result"] == "kept"
        assert (values["claims"], values["attempts"], values["recoveries"]) == (1, 1, 0)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    process.assert_few_troubles()
    assert "Traceback" not in process.output
