"""A worker's row in the table of workers: for people and health checks, no lease needs it."""

import contextlib
import os
import platform
import secrets
import socket
import threading
from importlib import metadata

import django
from django.db import Error, models

from django_leasequeue import clock, db
from django_leasequeue.models import Worker
from django_leasequeue.worker import bounded
from django_leasequeue.worker.options import WorkerOptions

# Seconds between two beats.
BEAT_EVERY = 10.0
# Seconds after which the row of a worker that ended without a word is removed.
_FORGOTTEN = 24 * 3600.0
# The `worker` column holds 255 characters; a host name alone may have that many.
_LONGEST_HOST = 200


class Heartbeat:
    """Keeps a row for each worker that is here.

    Workers enter and leave from any thread; the keeper's thread alone writes, by `beat()`
    and `close()`.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        # By name, the process id and the names of the tasks.
        self._here: dict[str, tuple[int, list[str]]] = {}
        self._gone: set[str] = set()
        # When to write next, by `clock.now()`.
        self.due_at = 0.0

    def enter(self, name: str, pid: int, tasks: list[str]) -> None:
        """Show the worker `name`: a process that runs these tasks."""
        with self._lock:
            self._here[name] = pid, tasks
            self.due_at = 0.0

    def leave(self, name: str) -> None:
        """Show it no more."""
        with self._lock:
            if self._here.pop(name, None) is not None:
                self._gone.add(name)
                self.due_at = 0.0

    def beat(self) -> None:
        """Write the rows if it is time. Raises the database's errors."""
        if clock.now() < self.due_at:
            return
        with self._lock:
            self.due_at = clock.now() + BEAT_EVERY
            here, gone = dict(self._here), set(self._gone)
        workers, now = self._rows(), db.DatabaseNow()
        if gone:
            workers.filter(name__in=gone).delete()
            self._gone -= gone
        mine = workers.filter(name__in=here)
        # Rows are missing at the first beat, or after somebody removed them.
        if here and mine.update(last_seen_at=now) < len(here):
            workers.filter(last_seen_at__lt=db.DatabaseNow(-_FORGOTTEN)).delete()
            for name in here.keys() - set(mine.values_list("name", flat=True)):
                described = self._described(name, *here[name])
                workers.create(started_at=now, last_seen_at=now, **described)

    def close(self) -> None:
        """Remove the rows; without a database they grow old and are removed later."""
        with contextlib.suppress(Error):
            self._rows().filter(name__in={*self._here, *self._gone}).delete()

    def _rows(self) -> models.QuerySet[Worker]:
        return Worker.objects.using(self._options.database)

    def _described(self, name: str, pid: int, tasks: list[str]) -> dict[str, object]:
        selection = self._options.selection
        return {
            "name": name,
            "host": socket.gethostname(),
            "pid": pid,
            "queues": list(selection.queues),
            "exclude": sorted(selection.exclude),
            "tasks": tasks,
            "versions": {
                "python": platform.python_version(),
                "django": django.get_version(),
                "django_leasequeue": _own_version(),
            },
        }


def take_away(name: str, database: str) -> None:
    """Remove the row of a worker whose supervisor can't do it any more; see Heartbeat.close."""
    with contextlib.suppress(Error), bounded.Bounded(database):
        Worker.objects.using(database).filter(name=name).delete()
    bounded.let_go(database)


def _own_version() -> str:
    try:
        return metadata.version("django-leasequeue")
    except metadata.PackageNotFoundError:
        return ""  # run from a checkout


def worker_name() -> str:
    """Return host:pid:random, another one at each call.

    A restarted container has the host name and the process id of its dead predecessor, so
    these two alone would let it take the other's jobs for its own.
    """
    return f"{_host()}:{os.getpid()}:{secrets.token_hex(4)}"


def _host() -> str:
    # Plain ASCII, since the column may be in a charset that has little more.
    name = socket.gethostname().encode("ascii", "replace").decode()
    return name[:_LONGEST_HOST]
