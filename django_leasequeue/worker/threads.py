"""The threads that run plain functions, one job at a time each."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from django.db import connections

from django_leasequeue import clock
from django_leasequeue.worker.running import Run


class Threads:
    """A fixed number of threads.

    `work(run)` runs a job and must not raise; `freed()` is called when a thread is free.
    """

    def __init__(
        self, number: int, work: Callable[[Run], None], freed: Callable[[], None]
    ) -> None:
        self._work, self._freed = work, freed
        self._queue: SimpleQueue[Run | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._free = number
        self._threads = [
            # Daemons: a task that never returns must not keep the process from ending.
            threading.Thread(target=self._loop, name=f"leasequeue-{n}", daemon=True)
            for n in range(1, number + 1)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def free(self) -> int:
        """How many more jobs would start at once; below 0 while some wait for a thread."""
        return self._free

    def start(self, run: Run) -> None:
        """Have a job run by the next free thread."""
        with self._lock:
            self._free -= 1
        self._queue.put(run)

    def close(self, seconds: float) -> None:
        """End the threads that run nothing, and wait for them."""
        for _ in self._threads:
            self._queue.put(None)
        deadline = clock.now() + seconds
        for thread in self._threads:
            thread.join(max(deadline - clock.now(), 0))

    def _loop(self) -> None:
        try:
            while (run := self._queue.get()) is not None:
                try:
                    self._work(run)
                finally:
                    with self._lock:
                        self._free += 1
                    self._freed()
        finally:
            connections.close_all()
