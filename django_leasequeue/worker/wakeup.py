"""What a thread sleeps on until there may be something to do."""

import contextlib
import os
import random
from queue import Empty, SimpleQueue

# The sleep while jobs are due that this worker didn't get, as when another worker is about
# to take them: doubled each time, since nothing rings when that one gives them up.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.2


class Wakeup:
    """A sleep that others can end.

    `wake()` may be called from any thread and from a signal handler: SimpleQueue.put() is
    reentrant, where the lock inside threading.Event is not.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()

    def wake(self) -> None:
        """End the present sleep, or else the next one at once."""
        self._calls.put(None)

    def sleep(self, seconds: float) -> bool:
        """Sleep for so long at the most; return whether it was ended by `wake()`."""
        try:
            self._calls.get(timeout=max(seconds, 0))
        except Empty:
            return False
        # One look at the state of things answers all calls made so far.
        while not self._calls.empty():
            self._calls.get()
        return True


class SelfPipe:
    """Wakes a process that waits for pipes, by a pipe to itself.

    `wake()` may be called from any thread and from a signal handler. A byte written to
    `waking` does the same.
    """

    def __init__(self) -> None:
        self.descriptor, self.waking = os.pipe()
        for end in (self.descriptor, self.waking):
            os.set_blocking(end, False)
        self._closed = False

    def wake(self) -> None:
        """Make the descriptor readable."""
        if self._closed:
            return  # nobody is left to wake
        # A full pipe is readable already.
        with contextlib.suppress(BlockingIOError):
            os.write(self.waking, b"!")

    def clear(self) -> None:
        """Take back all calls so far."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def close(self) -> None:
        """Close both ends."""
        self._closed = True
        os.close(self.waking)
        os.close(self.descriptor)


class Pace:
    """How long to sleep after a claim that found nothing."""

    def __init__(self) -> None:
        self._misses = 0

    def found(self) -> None:
        """Note that the last claim returned jobs."""
        self._misses = 0

    def pause(self, due_in: float | None, interval: float) -> float:
        """Return the seconds to sleep, `interval` at the most.

        `due_in`: seconds until the next job is due, None if none waits. Jitter only ever
        shortens a full interval, so that many idle workers don't ask in step.
        """
        if due_in is not None and due_in <= 0:
            self._misses += 1
            doubled = _FIRST_PAUSE * 2 ** min(self._misses - 1, 10)
            return min(doubled, _LONGEST_PAUSE, interval) * random.uniform(0.5, 1)
        self._misses = 0
        if due_in is not None and due_in < interval:
            return due_in
        return interval * random.uniform(0.8, 1)
