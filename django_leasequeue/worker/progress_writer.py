"""The thread that stores what running tasks say of their progress.

A connection of its own, so that an atomic task's progress is seen before it commits, and a
coroutine never waits for the database. The newest word of each run is written, at most once a
second; what was said between is passed over, and a failure is not told: the next word comes.
"""

import threading
from typing import Any

from django.db import connections

from django_leasequeue import clock, db
from django_leasequeue.models import Job
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.running import Run
from django_leasequeue.worker.vital import vital_thread

# Seconds between two rounds of writes.
_EVERY = 1.0


class ProgressWriter:
    """Stores progress of runs on `database`. Its thread starts with the first word."""

    def __init__(self, database: str) -> None:
        self._database, self._bounded = database, Bounded(database)
        self._lock = threading.Lock()
        self._newest: dict[Run, str] = {}
        self._something, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, run: Run, text: str) -> None:
        """Have a run's progress stored, a JSON text. Never waits."""
        with self._lock:
            self._newest[run] = text
            if self._thread is None:
                self._thread = vital_thread(self._work, name="leasequeue-progress")
                self._thread.start()
        self._something.set()

    def close(self, seconds: float) -> None:
        """End the thread. What is not stored by then is of runs that have ended."""
        self._closing.set()
        self._something.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self) -> None:
        try:
            while True:
                self._something.wait()
                if self._closing.is_set():
                    return
                self._something.clear()
                written_at = clock.now()
                self._write()
                self._closing.wait(max(written_at + _EVERY - clock.now(), 0))
        finally:
            connections.close_all()

    def _write(self) -> None:
        with self._lock:
            newest, self._newest = self._newest, {}
        for run, text in newest.items():
            if run.closed:
                continue
            try:
                with self._bounded:
                    jobs = Job.objects.using(self._database)
                    is_held = jobs.progress(run.job, text)
            except Exception as error:
                self._failed(error)
                continue
            if not is_held and not run.closed:
                run.context.lose("the row says that it is no longer this worker's")

    def _failed(self, error: Any) -> None:
        connection = connections[self._database]
        passing = db.is_passing_trouble(error, connection)
        logger.debug("Progress is not stored this time: %s", error)
        if not passing:
            connection.close()
