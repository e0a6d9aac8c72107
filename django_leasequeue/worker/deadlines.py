"""The thread of a process that strikes at the deadlines of its runs."""

import threading
from typing import Protocol

from django_leasequeue import clock
from django_leasequeue.worker.wakeup import Wakeup

# The longest sleep, in seconds: sleeping stops with the machine's own clock, while
# deadlines go on coming when it is suspended.
_LOOK_EVERY = 5.0


class Strikable(Protocol):
    """What has a deadline, by `clock.now()`."""

    @property
    def deadline(self) -> float:
        """When to strike."""
        ...

    def strike(self) -> None:
        """Do what is to be done at the deadline. Must neither wait nor raise."""


class Deadlines:
    """Strikes each of what it is given at its deadline, once.

    Takes no lock, since a thread that adds or discards may be interrupted at any line.
    """

    def __init__(self) -> None:
        # One operation of a dict is whole, whatever other threads do.
        self._waiting: dict[Strikable, None] = {}
        self._wakeup = Wakeup()
        # When the thread looks next.
        self._looks_at = 0.0
        self._is_closed = False
        self._thread = threading.Thread(
            target=self._work, name="leasequeue-deadlines", daemon=True
        )
        self._thread.start()

    def add(self, item: Strikable) -> None:
        """Strike it when its time has come."""
        self._waiting[item] = None
        if item.deadline < self._looks_at:
            self._wakeup.wake()

    def discard(self, item: Strikable) -> None:
        """Let it go, if that is not too late."""
        self._waiting.pop(item, None)

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        self._wakeup.wake()
        self._thread.join()

    def _work(self) -> None:
        while not self._is_closed:
            # What is added from here on wakes it, so nothing is missed by this look.
            self._looks_at = float("inf")
            now = clock.now()
            next_at = now + _LOOK_EVERY
            for item in list(self._waiting):
                if item.deadline <= now:
                    self._waiting.pop(item, None)
                    item.strike()
                else:
                    next_at = min(next_at, item.deadline)
            self._looks_at = next_at
            self._wakeup.sleep(next_at - now)
