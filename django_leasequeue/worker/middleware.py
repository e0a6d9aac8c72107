"""The project's middleware: context managers that are entered around each run.

The setting MIDDLEWARE lists callables, each of which gets the run's context and returns a
context manager. They are entered in this order and left in reverse, with the exception that
the task raised, if any. Nothing that they raise, or would swallow, changes the outcome.

A transaction that one of them leaves open is rolled back, and logged. Around an `async def`
task nobody can tell it from one that the task left open, since both have the connections of
one thread, which are looked at only at the end: there the job fails for it.
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.core.signals import setting_changed
from django.dispatch import receiver

from django_leasequeue import hooks
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.worker import forks
from django_leasequeue.worker.connections import JobConnections
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.hiding import to_be_logged
from django_leasequeue.worker.log import about, logger


@lru_cache(maxsize=1)
def loaded() -> tuple[tuple[str, Callable[[JobContext], Any]], ...]:
    """Return what MIDDLEWARE lists, imported: (dotted path, callable).

    Raises what an import does. Workers call it at their start, so that later none does.
    """
    return tuple((path, hooks.load(path)) for path in conf.middleware)


@receiver(setting_changed)
def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "LEASEQUEUE":
        loaded.cache_clear()


def around(job: Claimed, context: JobContext) -> "Around":
    """Return the middleware of one run."""
    return Around(job, context) if loaded() else NOTHING


class Around:
    """The middleware of one run: a block, `with` or `async with`, that never raises.

    But for one thing: an `async with` lets the CancelledError through by which the worker
    ends the run before its task is called.
    """

    __slots__ = ("_connections", "_context", "_job", "_leave", "error")

    def __init__(self, job: Claimed, context: JobContext) -> None:
        self._job, self._context = job, context
        #: What the task raised; the runner sets it.
        self.error: BaseException | None = None
        self._leave: list[tuple[str, Callable[..., Any]]] = []
        self._connections: JobConnections | None = None

    def __enter__(self) -> "Around":
        for path, make in loaded():
            if self._connections is None:
                # A transaction that one of them leaves open is not the task's.
                self._connections = JobConnections()
                self._connections.__enter__()
            try:
                with forks.Original():
                    manager = make(self._context)
                    leave = manager.__exit__
                    manager.__enter__()
            except BaseException as error:
                self._failed(path, error)
            else:
                self._leave.append((path, leave))
        return self

    def __exit__(self, *_: object) -> None:
        for path, leave in reversed(self._leave):
            try:
                with forks.Original():
                    leave(*self._raised())
            except BaseException as error:
                self._failed(path, error)
        self.error = None  # whose traceback holds this object in its turn
        if self._connections is not None:
            self._connections.__exit__()
            self._tell_left_open(self._connections.left_open)

    async def __aenter__(self) -> "Around":
        for path, make in loaded():
            try:
                with forks.Original():
                    manager = make(self._context)
                    if hasattr(manager, "__aenter__"):
                        leave = manager.__aexit__
                        await manager.__aenter__()
                    else:
                        leave = manager.__exit__
                        manager.__enter__()
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                    await self.__aexit__()
                    raise
                self._failed(path, error)
            else:
                self._leave.append((path, leave))
        return self

    async def __aexit__(self, *_: object) -> None:
        for path, leave in reversed(self._leave):
            try:
                with forks.Original():
                    left = leave(*self._raised())
                    if hasattr(left, "__await__"):
                        await left
            except BaseException as error:
                self._failed(path, error)
        self.error = None

    def _raised(self) -> tuple[Any, Any, Any]:
        error = self.error
        if error is None:
            return None, None, None
        return type(error), error, error.__traceback__

    def _failed(self, path: str, error: BaseException) -> None:
        if error is self.error:
            return  # passed on, as it may be
        logger.error(
            "Job %s (%s): the middleware %s raised %s, which changes nothing of the run.",
            self._job.id,
            self._job.task,
            path,
            type(error).__name__,
            exc_info=to_be_logged(self._job, error),
            extra=about(self._job, middleware=path),
        )

    def _tell_left_open(self, aliases: list[str]) -> None:
        if aliases:
            logger.error(
                "Job %s (%s): middleware left a transaction open on %s. It was rolled back.",
                self._job.id,
                self._job.task,
                ", ".join(aliases),
                extra=about(self._job, databases=aliases),
            )


class _Nothing(Around):
    """Stands for no middleware, which must cost next to nothing: one object for all runs."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def __enter__(self) -> Around:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Around:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __setattr__(self, name: str, value: object) -> None:
        """Keep nothing, least of all an exception."""


#: The middleware of runs without any.
NOTHING = _Nothing()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
