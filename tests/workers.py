"""Tools of the tests that start workers."""

import contextlib
import fcntl
import os
from collections import Counter
from pathlib import Path

from django.test import override_settings

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.worker.options import WorkerOptions

# With these, workers know tests.worker_tasks.
SETTINGS = {"TASK_MODULES": ["tests.worker_tasks"]}


def with_worker_tasks(**settings):
    """Return a decorator or context under which these tasks may be dispatched here."""
    return override_settings(LEASEQUEUE={**SETTINGS, **settings})


def options(**given):
    """Return WorkerOptions for this run's default database."""
    usual = {
        "queues": "*",
        "exclude": "",
        "database": "default",
        "processes": 1,
        "threads": 2,
        "async_tasks": 2,
        "shutdown_timeout": 30,
    }
    return WorkerOptions(**{**usual, **given})


def statuses():
    """Return how many jobs there are in each status."""
    return Counter(Job.objects.values_list("status", flat=True))


def end_leases(jobs):
    """Move the leases of these jobs into the past, as if their time had gone by."""
    return jobs.running().update(processing_until=DatabaseNow(-3600))


class Gate:
    """A lock that tests.worker_tasks.pass_gate waits for, and the runs that got past it."""

    def __init__(self, folder):
        self.path = str(folder / "runs")
        Path(self.path).touch()
        self._file = os.open(f"{self.path}.gate", os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self):
        """Let everybody through."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self):
        os.close(self._file)

    def runs(self):
        """Return (pid, word) of each run so far."""
        lines = Path(self.path).read_text().splitlines()
        return [tuple(line.split(" ", 1)) for line in lines]


@contextlib.contextmanager
def gate(folder):
    """Yield a Gate that is shut."""
    made = Gate(folder)
    try:
        yield made
    finally:
        made.close()
