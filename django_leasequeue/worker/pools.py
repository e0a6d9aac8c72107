"""The threads of a process that run jobs: plain functions and `async def` tasks."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue

from django.db import connections

from django_leasequeue import clock
from django_leasequeue.worker.running import Run
from django_leasequeue.worker.vital import vital_thread


class ThreadPool:
    """A fixed number of threads, which run one job at a time each.

    `work(run)` runs a job and must not raise; `freed()` is called when a job has ended.
    """

    def __init__(
        self, number: int, work: Callable[[Run], None], freed: Callable[[], None]
    ) -> None:
        self._work, self._freed = work, freed
        self._queue: SimpleQueue[Run | None] = SimpleQueue()
        self._lock = threading.Lock()
        self.places = self._free = number
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

    def start(self, runs: list[Run]) -> None:
        """Have jobs run by the next free threads, in this order."""
        with self._lock:
            self._free -= len(runs)
        for run in runs:
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


class CoroutinePool:
    """A thread with an event loop for so many jobs at a time, started with the first one.

    `work(run)` runs a job and must not raise; `freed()` is called when one has ended.
    """

    def __init__(
        self,
        places: int,
        work: Callable[[Run], Awaitable[None]],
        freed: Callable[[], None],
    ) -> None:
        self._work, self._freed = work, freed
        self._lock = threading.Lock()
        self.places = self._free = places
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._waiting: deque[Run] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def free(self) -> int:
        """How many more jobs would start at once; below 0 while some wait for a place."""
        return self._free

    def start(self, runs: list[Run]) -> None:
        """Have jobs run as places become free, in this order."""
        with self._lock:
            self._free -= len(runs)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = vital_thread(self._run_loop, name="leasequeue-async")
            self._thread.start()
        self._waiting.extend(runs)
        self._loop.call_soon_threadsafe(self._begin_next)

    def close(self, seconds: float) -> None:
        """Cancel what still runs, and end the loop and its thread."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._cancel(seconds), self._loop)
        self._thread.join(seconds + 1)

    def _begin_next(self) -> None:
        assert self._loop is not None
        while self._waiting and len(self._tasks) < self.places:
            task = self._loop.create_task(self._guarded(self._waiting.popleft()))
            # The loop itself keeps only weak references.
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._begin_next()

    async def _guarded(self, run: Run) -> None:
        try:
            await self._work(run)
        finally:
            with self._lock:
                self._free += 1
            self._freed()

    def _run_loop(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            connections.close_all()
            self._loop.close()

    async def _cancel(self, seconds: float) -> None:
        assert self._loop is not None
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        self._loop.stop()
