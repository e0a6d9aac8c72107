"""Real workers whose connections to the database are cut."""

import contextlib
import signal

import pytest
from django.db import OperationalError, connection

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import tasks
from tests.helpers import eventually
from tests.road import row

SESSIONS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() "
    "AND id <> CONNECTION_ID()",
}
CUT = {"postgresql": "SELECT pg_terminate_backend(%s)", "mysql": "KILL %s"}


@pytest.fixture(autouse=True)
def on_a_server():
    if connection.vendor not in CUT:
        pytest.skip("a file has no connection to lose")


def cut_all():
    """End every session on the test database but this one; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(SESSIONS[connection.vendor])
        sessions = cursor.fetchall()
        for session in sessions:
            # It may have ended by itself.
            with contextlib.suppress(OperationalError):
                cursor.execute(CUT[connection.vendor], session)
    return len(sessions)


@pytest.mark.parametrize("mode", ["--processes=2", "--in-process"])
def test_096_095_one_run_and_no_restart_though_all_connections_are_cut(
    worker_process, announcement, mode
):
    first = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker_process(mode, "--threads=2")
    announcement.wait()
    eventually(cut_all)
    announcement.release()
    eventually(lambda: row(first)["status"] == Status.SUCCEEDED)
    # Now it is idle, and is cut off again.
    eventually(cut_all)
    second = tasks.record_effect.dispatch("second").job
    eventually(lambda: row(second)["status"] == Status.SUCCEEDED)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    columns = ("attempts", "claims", "recoveries", "errors")
    assert list(Job.objects.values_list(*columns)) == [(1, 1, 0, [])] * 2
    assert "was lost" not in process.output
    assert "Traceback" not in process.output
    process.assert_few_troubles()
