"""The settler: the thread that stores what runs yielded, in groups.

Whatever has ended while the last write was in flight goes into the next one; when idle, an
outcome is written at once. An outcome leaves the settler in one of two ways: it is written,
in its plainest form if the database refuses the details, or the row says that the lease was
lost. Until then it is tried again: a run that has ended is not thrown away.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue

from django.db import connections

from django_leasequeue import clock
from django_leasequeue.outcomes import Outcome
from django_leasequeue.worker.running import Run
from django_leasequeue.worker.vital import vital_thread
from django_leasequeue.worker.writer import Entry, Writer

# SQLite allows 32,766 parameters a statement, and a group holds its row locks for as long
# as it takes to write.
_LARGEST_GROUP = 500


class Settler:
    """Stores outcomes. `settled` gets the runs that have left, with their words; see `log`."""

    def __init__(
        self, database: str, settled: Callable[[list[tuple[Run, str]]], None]
    ) -> None:
        self._inbox: SimpleQueue[Entry | None] = SimpleQueue()
        self._waiting: list[Entry] = []
        self._deadline = float("inf")
        self._writer = Writer(database, self._waiting.extend, settled)
        self._thread = vital_thread(self._work, name="leasequeue-settler")
        self._thread.start()

    def put(self, run: Run, outcome: Outcome) -> None:
        """Have an outcome stored. Never waits."""
        self._inbox.put(Entry(run, outcome))

    def close(self, seconds: float) -> None:
        """Store what is left, for so long at the most, and end the thread."""
        self._deadline = clock.now() + seconds
        self._inbox.put(None)
        self._thread.join(seconds)

    def _work(self) -> None:
        closing = False
        try:
            while clock.now() < self._deadline:
                closing = self._collect(closing) or closing
                ready = self._take_ready()
                if ready:
                    self._writer.write(ready)
                elif closing and not self._waiting:
                    return
        finally:
            connections.close_all()

    def _collect(self, closing: bool) -> bool:
        """Wait for entries, or until one is to be tried again; return whether to close."""
        timeout = None
        if self._waiting or closing:
            first = min((entry.not_before for entry in self._waiting), default=0)
            timeout = max(min(first, self._deadline) - clock.now(), 0)
        try:
            entry = self._inbox.get(timeout=timeout)
            while entry is not None:
                self._waiting.append(entry)
                entry = self._inbox.get_nowait()
        except Empty:
            return False
        return True

    def _take_ready(self) -> list[Entry]:
        now = clock.now()
        ready: list[Entry] = []
        later: list[Entry] = []
        for entry in self._waiting:
            wanted = entry.not_before <= now and len(ready) < _LARGEST_GROUP
            (ready if wanted else later).append(entry)
        self._waiting[:] = later
        return ready
