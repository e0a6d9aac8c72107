"""SQLite alone: one write lock for the file, which is asked for before anything is read."""

import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace

import pytest
from django.db import connection, transaction

from django_leasequeue.db import errors
from django_leasequeue.models import Job
from django_leasequeue.outcomes import RetryLater, Succeeded
from tests.factories import JobFactory
from tests.helpers import run_together, worker_environment
from tests.models import Effect
from tests.processes import ROOT
from tests.road import claim
from tests.tasks import add

pytestmark = pytest.mark.skipif(
    "connection.vendor != 'sqlite'", reason="about SQLite's one lock"
)
PROCESSES = 4
JOBS = 150


@pytest.fixture(scope="module")
def claimers():
    """Processes that wait for a file to claim from."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-W", "error", "-m", "tests.claiming"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                    env=worker_environment(),
                )
            )
            for _ in range(PROCESSES)
        ]


def tell(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def heard(process, word):
    line = process.stdout.readline()
    if line != f"{word}\n":
        process.kill()
        raise AssertionError(f"{line!r} instead of {word!r}: {process.stderr.read()}")


@pytest.mark.parametrize("mode", [None, "IMMEDIATE"])
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_008_processes_take_each_job_once(claimers, journal, mode, tmp_path):
    """Several processes, with a pause between look and mark, with SQLite's own defaults too.

    Fails with candidates that are read first and then marked by their id alone.
    """
    file, out = tmp_path / "jobs.sqlite3", tmp_path / "claimed"
    Job.objects.dispatch_many(add.spec(number, 0) for number in range(JOBS))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(file)])
    with closing(sqlite3.connect(file)) as copy:
        copy.execute(f"PRAGMA journal_mode={journal}")
    for process in claimers:
        tell(process, json.dumps({"file": str(file), "mode": mode, "out": str(out)}))
    # None goes on before all have claimed some.
    for word in ("ready", "begun"):
        for process in claimers:
            heard(process, word)
        for process in claimers:
            tell(process, "go")
    for process in claimers:
        heard(process, "done")
    expected = {str(pk) for pk in Job.objects.values_list("id", flat=True)}
    claimed = out.read_text().split()
    assert len(claimed) == len(expected) == JOBS
    assert set(claimed) == expected
    with closing(sqlite3.connect(file)) as copy:
        ends = copy.execute(
            "SELECT DISTINCT status, claims, attempts FROM leasequeue_job"
        )
        assert ends.fetchall() == [("succeeded", 1, 1)]
        workers = copy.execute("SELECT COUNT(DISTINCT worker) FROM leasequeue_job")
        assert workers.fetchone()[0] == PROCESSES


@contextmanager
def deferred():
    """Let this thread's transactions begin as Django's do by default: without the lock."""
    usual = connection.settings_dict
    connection.close()
    options = {**usual["OPTIONS"], "transaction_mode": None}
    connection.settings_dict = {**usual, "OPTIONS": options}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = usual


def test_011_own_transactions_take_the_lock_first(monkeypatch):
    """Beside a busy writer every verb waits for the lock: none is refused and run again.

    Fails with a transaction that reads before it writes.
    """
    refused = []
    monkeypatch.setattr(errors, "time", SimpleNamespace(sleep=refused.append))
    stop = threading.Event()

    def write():
        try:
            for number in range(150):
                with deferred(), transaction.atomic():
                    Effect.objects.create(name=str(number))
        finally:
            stop.set()

    def work():
        with deferred():
            while not stop.is_set():
                Job.objects.dispatch(add, [1, 2])
                Job.objects.dispatch(add, [1, 2], dedup="k")
                Job.objects.dispatch_many(
                    [add.spec(1, 2), add.using(dedup="j").spec(1, 2)]
                )
                JobFactory(expired=True)
                held = claim(10)
                for job in held:
                    Job.objects.renew(job.token)
                outcomes = [Succeeded(), RetryLater(0, {"message": ""})]
                Job.objects.settle(list(zip(held[:2], outcomes, strict=False)))
                for job in held[2:]:
                    Job.objects.release(job.token, death="killed")
                Job.objects.filter(dedup_id="j").cancel()

    run_together([write, work, work])
    assert refused == []
