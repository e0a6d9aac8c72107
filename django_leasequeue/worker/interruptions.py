"""Interrupting the call of a task at its deadline: that call, once, and nothing else.

An interruption is a block around the call. While it lasts, `deadlines` may strike it from
its own thread; after it, nothing comes any more.
"""

import asyncio
import contextlib
import ctypes
import threading
from typing import Self

from django_leasequeue.exceptions import JobTimeout
from django_leasequeue.worker.deadlines import Deadlines

# Makes a thread raise a class of exceptions as soon as it runs Python code.
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
_raise_in.restype = ctypes.c_int


class OfThread:
    """Raises JobTimeout in the thread that enters the block.

    It may come at any line, those of this class among them, but only once. So whatever is
    left undone here when it comes was there to keep it away.
    """

    def __init__(self, deadlines: Deadlines, deadline: float) -> None:
        self.deadline = deadline
        self._deadlines, self._thread = deadlines, threading.get_ident()
        # Taken for good by whoever is first, the strike or the end of the block. Locks
        # that are never given back can't be left locked by an exception either.
        self._turn = threading.Lock()
        self._sent = threading.Lock()
        self._sent.acquire()

    def __enter__(self) -> Self:
        self._deadlines.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._deadlines.discard(self)
        if not self._turn.acquire(blocking=False):
            self._sent.acquire()
            self._have_it_here()

    def strike(self) -> None:
        """Raise it, unless the block has ended. For another thread."""
        if self._turn.acquire(blocking=False):
            _raise_in(self._thread, JobTimeout)
            self._sent.release()

    def _have_it_here(self) -> None:
        # It was raised in the task, or it is still to come, which nobody can tell. Raised
        # once more, it takes its own place if it was. To clear it instead makes Python 3.11
        # and 3.12 look for it at every call for ever after, at half their speed [tried].
        with contextlib.suppress(JobTimeout):
            _raise_in(self._thread, JobTimeout)
            _loop()


def _loop() -> None:
    # On its own: Python 3.12 and 3.13 leave the jump at a loop's end out of the `with` or
    # `try` around it, and what is raised right there passes these by [tried].
    while True:
        pass


class OfCoroutine:
    """Cancels the asyncio task that enters the block. The event loop's thread decides."""

    def __init__(self, deadlines: Deadlines, deadline: float) -> None:
        self.deadline = deadline
        self._deadlines = deadlines
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._is_over = False

    def __enter__(self) -> Self:
        self._deadlines.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._deadlines.discard(self)
        self._is_over = True

    def strike(self) -> None:
        """Cancel it, unless the block has ended. For another thread."""
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self._is_over and self._task is not None:
            self._task.cancel("The run took longer than its timeout.")
