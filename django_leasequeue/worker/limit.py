"""The time that one run may take."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from django_leasequeue import clock
from django_leasequeue.worker.deadlines import Deadlines
from django_leasequeue.worker.interruptions import OfCoroutine, OfThread


class Limit:
    """A run's time limit of `seconds`, None for no limit, from `start()` to `end()`.

    In between goes `in_thread()` or `in_coroutine()`, around the call of the task alone.
    Without `deadlines` nothing interrupts the task: it has to look at the deadline.
    `started(deadline)` and `ended()` are called at start and end if there is a limit.
    """

    def __init__(
        self,
        seconds: float | None,
        deadlines: Deadlines | None = None,
        started: Callable[[float], None] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> None:
        self._seconds, self._deadlines = seconds, deadlines
        self._started, self._ended = started, ended
        # By `clock.now()`; None without a limit, and before the start.
        self.deadline: float | None = None
        # Known at the end.
        self.is_exceeded = False

    def start(self) -> None:
        """Set the deadline."""
        if self._seconds is None:
            return
        self.deadline = clock.now() + self._seconds
        if self._started is not None:
            self._started(self.deadline)

    def in_thread(self) -> AbstractContextManager[object]:
        """Return the block in which this thread gets JobTimeout at the deadline."""
        if self._deadlines is None or self.deadline is None:
            return nullcontext()
        return OfThread(self._deadlines, self.deadline)

    def in_coroutine(self) -> AbstractContextManager[object]:
        """Return the block in which this asyncio task is cancelled at the deadline."""
        if self._deadlines is None or self.deadline is None:
            return nullcontext()
        return OfCoroutine(self._deadlines, self.deadline)

    def end(self) -> None:
        """Find out whether the run took too long."""
        if self.deadline is None:
            return
        self.is_exceeded = clock.now() >= self.deadline
        if self._ended is not None:
            self._ended()


#: Of all runs that may take as long as they like: nothing about it ever changes.
NO_LIMIT = Limit(None)
