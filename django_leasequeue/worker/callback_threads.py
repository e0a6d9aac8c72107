"""The threads in which callbacks and receivers of job_settled are called.

They have their own, so that a slow one holds up neither the settler nor the jobs. Each is
called at most once, by the process that stored the outcome.
"""

import threading
from collections.abc import Callable, Iterable, Set
from queue import Empty, SimpleQueue

from django.db import connections

from django_leasequeue import clock
from django_leasequeue.models import Job
from django_leasequeue.signals import job_settled
from django_leasequeue.worker import events
from django_leasequeue.worker.callbacks import call_all, callback_of
from django_leasequeue.worker.connections import JobConnections
from django_leasequeue.worker.killed import Killed
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.running import Run

# So many runs whose callbacks are not over keep the process from claiming more jobs, or
# theirs would pile up without end.
_ENOUGH = 500


class CallbackThreads:
    """Up to `number` threads, each started when all others are busy.

    `over(run)` is called, in one of them, once all is called for a run.
    """

    def __init__(
        self, number: int, database: str, over: Callable[[Run | Killed], None]
    ) -> None:
        self._number, self._database, self._over = number, database, over
        self._queue: SimpleQueue[Run | Killed | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        # Runs that are not over, those that wait for a thread among them.
        self._open: set[Run | Killed] = set()

    @property
    def have_enough(self) -> bool:
        """Whether no more jobs are to be claimed before some are over."""
        return len(self._open) >= _ENOUGH

    def take(self, runs: list[Run]) -> list[Run]:
        """Have all called for those runs that want it, and return the others. Never waits."""
        # For nearly all jobs there is nothing, which must cost next to nothing.
        everyone = job_settled.has_listeners(Job)
        wanted = [run for run in runs if run.stored and (everyone or _wants(run))]
        if not wanted:
            return runs
        self.put(*wanted)
        taken = set(wanted)
        return [run for run in runs if run not in taken]

    def put(self, *runs: Run | Killed) -> None:
        """Have all called for these runs. Never waits."""
        with self._lock:
            self._open.update(runs)
            for _ in range(min(len(self._open), self._number) - len(self._threads)):
                if not self._start_thread():
                    break
            nobody = not self._threads
            if nobody:
                self._open.difference_update(runs)
        if nobody:
            _warn("No thread can be started, so callbacks are not called", set(runs))
            for run in runs:
                self._over(run)
            return
        for run in runs:
            self._queue.put(run)

    def close(self, seconds: float) -> int:
        """Wait for what is not over, for so long at the most, and end the threads.

        Returns how many of them go on, each with a callback that has not ended.
        """
        for _ in self._threads:
            self._queue.put(None)
        deadline = clock.now() + seconds
        for thread in self._threads:
            thread.join(max(deadline - clock.now(), 0))
        self._tell_left()
        return sum(thread.is_alive() for thread in self._threads)

    def _start_thread(self) -> bool:
        """Start one more, unless the machine has no more."""
        name = f"leasequeue-callbacks-{len(self._threads) + 1}"
        # A daemon: a callback that never returns must not keep the process from ending.
        thread = threading.Thread(target=self._loop, name=name, daemon=True)
        try:
            thread.start()
        except (
            RuntimeError
        ) as error:  # the settler goes on, which must not end for this
            logger.error("No further thread for callbacks: %s.", error)
            return False
        self._threads.append(thread)
        return True

    def _loop(self) -> None:
        try:
            while (run := self._queue.get()) is not None:
                try:
                    self._call(run)
                finally:
                    with self._lock:
                        self._open.discard(run)
                    self._over(run)
        finally:
            connections.close_all()

    def _call(self, run: Run | Killed) -> None:
        found = self._found(run) if isinstance(run, Killed) else run
        if found is not None and found.stored is not None:
            call_all(found.job, found.task, found.stored, self._database)

    def _found(self, killed: Killed) -> Run | None:
        try:
            with JobConnections():
                return killed.run(self._database)
        except Exception as error:
            logger.error(
                "Job %s: its callbacks are not called, since its row can't be read: %s",
                killed.job_id,
                error,
                exc_info=error,
                extra={"job_id": killed.job_id},
            )
            return None

    def _tell_left(self) -> None:
        waiting: set[Run | Killed | None] = set()
        try:
            while True:
                waiting.add(self._queue.get_nowait())
        except Empty:
            pass
        for _ in self._threads:
            # Among what was taken is what ends those that are still busy.
            self._queue.put(None)
        with self._lock:
            open_now = set(self._open)
        warn_not_called(open_now & waiting)
        _warn(
            "The worker stops, and callbacks have not ended in time", open_now - waiting
        )


def _wants(run: Run) -> bool:
    if run.stored is None:
        return False
    has_callback = callback_of(run.task, run.stored) is not None
    return has_callback or events.is_told(run.task, run.stored)


def warn_not_called(runs: Iterable[Run | Killed | None]) -> None:
    """Log of which runs no callbacks are called because the worker stops, if of any."""
    _warn("The worker stops, and callbacks are not called", set(runs))


def _warn(what: str, runs: Set[Run | Killed | None]) -> None:
    if not runs:
        return
    ids = sorted(
        run.job_id if isinstance(run, Killed) else run.job.id for run in runs if run
    )
    logger.warning(
        "%s: those of %s %s.",
        what,
        "job" if len(ids) == 1 else "jobs",
        ", ".join(map(str, ids)),
        extra={"job_ids": ids},
    )
