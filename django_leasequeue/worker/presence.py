"""A worker's row in the table of workers: for people and health checks, no lease needs it."""

import contextlib
import os
import platform
import socket
from importlib import metadata

import django
from django.db import Error

from django_leasequeue import clock, db, registry
from django_leasequeue.models import Worker
from django_leasequeue.worker.options import WorkerOptions

# Seconds between two beats.
BEAT_EVERY = 10.0
# Seconds after which the row of a worker that ended without a word is removed.
_FORGOTTEN = 24 * 3600.0


class Presence:
    """Keeps the row of worker `name` fresh, in the thread that calls it."""

    def __init__(self, name: str, options: WorkerOptions) -> None:
        self._name, self._options = name, options
        # When to write it next, by `clock.now()`.
        self.due_at = 0.0

    def beat(self) -> None:
        """Write the row if it is time. Raises the database's errors."""
        if clock.now() < self.due_at:
            return
        self.due_at = clock.now() + BEAT_EVERY
        workers = Worker.objects.using(self._options.database)
        now = db.DatabaseNow()
        # None is updated at the first beat, or after somebody removed it.
        if not workers.filter(name=self._name).update(last_seen_at=now):
            workers.filter(last_seen_at__lt=db.DatabaseNow(-_FORGOTTEN)).delete()
            workers.create(started_at=now, last_seen_at=now, **self._described())

    def leave(self) -> None:
        """Remove the row; without a database it grows old and is removed later."""
        with contextlib.suppress(Error):
            Worker.objects.using(self._options.database).filter(
                name=self._name
            ).delete()

    def _described(self) -> dict[str, object]:
        selection = self._options.selection
        # A supervisor runs none, but says which its children know.
        with contextlib.suppress(Exception):
            registry.autodiscover()
        return {
            "name": self._name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "queues": list(selection.queues),
            "exclude": sorted(selection.exclude),
            "tasks": registry.names(),
            "versions": {
                "python": platform.python_version(),
                "django": django.get_version(),
                "django_leasequeue": _own_version(),
            },
        }


def _own_version() -> str:
    try:
        return metadata.version("django-leasequeue")
    except metadata.PackageNotFoundError:
        return ""  # run from a checkout
