"""Fixtures, and the rules by which the folders of the tests are run."""

import os
import shutil
import signal
from pathlib import Path
from unittest.mock import patch

import pytest
from django.conf import settings

from django_leasequeue.db import kept
from django_leasequeue.worker import bounded
from tests import token_guard
from tests.helpers import announcement as open_announcement
from tests.helpers import new_connection
from tests.processes import WorkerProcess

TESTS = Path(__file__).parent
# What a test of each folder gets unless it has a django_db mark of its own. A test in
# unit/ gets none, so a query there is an error.
DJANGO_DB = {
    "database": pytest.mark.django_db,
    "concurrency": pytest.mark.django_db(transaction=True),
    # Both, since Django's own checks connect to every database when a command starts.
    "crash": pytest.mark.django_db(transaction=True, databases=["default", "other"]),
    "admin": pytest.mark.django_db,
    # The server's threads see what is committed.
    "browser": pytest.mark.django_db(transaction=True),
}


@pytest.hookimpl(tryfirst=True)  # before pytest-django orders the tests by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in DJANGO_DB and not item.get_closest_marker("django_db"):
            item.add_marker(DJANGO_DB[folder])


def pytest_report_header():
    return f"database: {settings.DATABASE}"


def pytest_configure():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in the background of a shell; the processes of the tests would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if settings.DATABASE == "sqlite":
        settings.SQLITE_FOLDER.mkdir(exist_ok=True)
    else:
        # Coverage doubles the time of the processes that the tests start, so theirs is
        # measured on SQLite alone.
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


def pytest_unconfigure():
    if settings.configured and settings.DATABASE == "sqlite":
        shutil.rmtree(settings.SQLITE_FOLDER, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_limits_left():
    """Parts of a worker that a test runs in its own thread limit the session they use."""
    yield
    bounded.let_go("default")


@pytest.fixture(autouse=True, scope="session")
def no_statement_is_slow():
    """A busy machine adds nothing to the statements that a test counts, see db.kept."""
    with patch.object(kept, "_SLOW", float("inf")):
        yield


@pytest.fixture
def worker_process(tmp_path):
    """Start real processes: `worker_process("--drain", settings={"LEASE": 5})`.

    Runs `runjobs` unless `command` names another; `settings` is its LEASEQUEUE. Each is
    stopped at the end of the test, and what it printed is shown if the test fails. A write
    of theirs that a lost lease would not stop fails the test: see token_guard.
    """
    started = []

    def start(*arguments, command="runjobs", settings=None, env=None):
        log = tmp_path / f"process-{len(started)}.log"
        env = {token_guard.VARIABLE: "1", **(env or {})}
        process = WorkerProcess([command, *map(str, arguments)], log, settings, env)
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()
    for process in started:
        print(f"--- process {process.pid} printed:\n{process.output}")
        assert token_guard.ALARM not in process.output


@pytest.fixture
def second_connection():
    """A connection of this thread beside the usual one, in autocommit mode."""
    with new_connection() as connection:
        yield connection


@pytest.fixture
def announcement(tmp_path):
    """FIFOs for a handshake with running tasks. See helpers.announcement()."""
    with open_announcement(tmp_path) as said:
        yield said
