"""Case 101: dispatchers and real workers that share two sessions, by a real PgBouncer."""

import os
import signal
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import private, tasks, worker_tasks
from tests.helpers import eventually, new_connection, together
from tests.models import Effect
from tests.pooler import SESSIONS, Pooler
from tests.road import row
from tests.server_programs import ServerMissing
from tests.workers import SETTINGS, end_leases, statuses, with_worker_tasks

URL = "LEASEQUEUE_TEST_POSTGRES_URL"
# Renewed after 5 s.
SHORT = {**SETTINGS, "LEASE": 15, "SAFETY_BUFFER": 0}
LIMITS = (
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
)
CALLERS, IDS = 4, 10


@pytest.fixture(scope="module")
def pooler():
    if connection.vendor != "postgresql":
        pytest.skip("PgBouncer is for PostgreSQL")
    url = urlsplit(os.environ[URL])
    try:
        server = Pooler(url.hostname, url.port)
    except ServerMissing as missing:
        pytest.skip(str(missing))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def worker(pooler, worker_process):
    """Have this process use the pooler, and start workers that do."""
    url = urlsplit(os.environ[URL])
    place = url.netloc.replace(f":{url.port}", f":{pooler.port}")
    env = {URL: url._replace(netloc=place).geturl(), "LEASEQUEUE_TEST_POOLED": "1"}
    changes = {"PORT": str(pooler.port), "DISABLE_SERVER_SIDE_CURSORS": True}
    with with_worker_tasks(), private.elsewhere(**changes):
        yield lambda *arguments: worker_process(*arguments, settings=SHORT, env=env)


def stop(process):
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    process.assert_few_troubles()
    assert "Traceback" not in process.output


def dispatch(number):
    """Dispatch with ids that every caller uses; return what became of each."""
    said = [
        Job.objects.dispatch(tasks.record_effect, [f"id {n}"], dedup=f"id {n}").outcome
        for n in range(IDS)
    ]
    with transaction.atomic():
        tasks.record_effect_atomically.dispatch(f"caller {number}")
    return said


def test_101_every_verb_works_on_shared_sessions(worker, announcement):
    Job.objects.dispatch_many([tasks.add.spec(n, n) for n in range(100)])
    # More callers than sessions, all after the same ids, which no worker takes yet.
    said = [outcome for some in together(CALLERS, dispatch) for outcome in some]
    assert (said.count("added"), said.count("skipped")) == (IDS, (CALLERS - 1) * IDS)
    process = worker("--processes=2", "--threads=2")
    eventually(lambda: set(statuses()) == {Status.SUCCEEDED})
    assert Effect.objects.count() == IDS + CALLERS
    # Renewed, and told of a cancel while it runs.
    job = worker_tasks.wait_for_a_cancel.dispatch(announcement.path, True).job
    announcement.wait()
    until = row(job)["processing_until"]
    eventually(lambda: row(job)["processing_until"] > until)
    assert Job.objects.filter(pk=job.pk).cancel().requested == {job.pk}
    eventually(lambda: row(job)["status"] == Status.CANCELLED)
    # Recovered, when its worker is gone with all its children.
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    announcement.wait()
    process.kill()
    assert end_leases(Job.objects.all()) == 1
    process = worker()
    announcement.wait()
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert (row(job)["claims"], row(job)["recoveries"]) == (2, 1)
    Job.objects.update(finished_at="2000-01-01T00:00Z")
    call_command("prunejobs", verbosity=0)
    assert not Job.objects.exists()
    stop(process)
    assert limits_of_all_sessions() == [("0", "0", "0")] * SESSIONS


def test_101_a_killed_childs_transaction_does_not_stay_open(worker, announcement):
    """The pooler rolls it back when the child's connection ends."""
    job = worker_tasks.write_then_wait.dispatch(announcement.path, "effect").job
    process = worker("--threads=1")
    os.kill(int(announcement.wait().split()[0]), signal.SIGKILL)
    announcement.wait()
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert Effect.objects.count() == 1
    assert (row(job)["claims"], row(job)["recoveries"]) == (2, 1)
    stop(process)


def limits_of_all_sessions():
    """Return what everybody's sessions have in the end, all of them held at once."""
    found = []
    asked = ", ".join(f"current_setting('{name}')" for name in LIMITS)
    with new_connection() as second, second.cursor() as cursor:
        second.set_autocommit(False)
        with transaction.atomic(), connection.cursor() as other:
            for one in (cursor, other):
                one.execute(f"SELECT pg_backend_pid(), {asked}")
                found.append(one.fetchone())
        second.rollback()
    assert len({pid for pid, *_ in found}) == SESSIONS
    return [tuple(limits) for _, *limits in found]
