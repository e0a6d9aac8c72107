"""The durable steps of one run: each runs once in a round of its job, whatever happens.

What a step returned is recorded before the run goes on, and returned in its place by every
later run of the round. See docs/steps.md.
"""

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections

from django_leasequeue import clock, payloads
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.exceptions import JobRunAborted, StepRefused
from django_leasequeue.fields import BrokenJSON
from django_leasequeue.payloads.texts import breaks_databases
from django_leasequeue.rounds import LONGEST_STEP

if TYPE_CHECKING:
    from django_leasequeue.worker.step_store import StepStore

# Seconds between two looks of a run that waits for the database, whether it still counts.
_LOOK_EVERY = 0.2
# Seconds until a row that somebody has locked is tried again.
_FIRST_BUSY_PAUSE = 0.01
_LONGEST_BUSY_PAUSE = 1.0
# Refusals of a server that answers, after which it is the step that it does not take.
_SUSPICIOUS = 3


class TryAgain(Exception):
    """The database gave no answer this time.

    `pause`: seconds to wait before the next try. `is_away`: whether that explains it; else
    the server answers, and it may be the statement that it does not take.
    """

    def __init__(self, pause: float, is_away: bool) -> None:
        self.pause, self.is_away = pause, is_away


class _Found(NamedTuple):
    """What a step returned in an earlier run."""

    result: Any


class _Wait(NamedTuple):
    """What a run has to wait for: an answer, or without one a while, in seconds."""

    future: Future[Any] | None
    seconds: float


_Waiting = Generator[_Wait, None, Any]


class Steps:
    """The steps of one run. For any thread of its task, and for its coroutines.

    `store`: None where nothing is recorded, without a worker.
    """

    def __init__(self, context: Any, job: Claimed, store: "StepStore | None") -> None:
        self._context, self._job, self._store = context, job, store
        self._process = os.getpid()
        self._lock = threading.Lock()
        # Names that are under way or done in this run, and those that earlier runs recorded.
        self._used: set[str] = set()
        self._known: set[str] | None = None
        self._has_recorded = False

    def run(
        self,
        name: str,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Return what the step returned, once it is recorded. See JobContext.step."""
        _refuse_event_loop()
        if iscoroutinefunction(func):
            raise TypeError(
                f"Step {name!r} is a coroutine function. Make the task `async def`, and use "
                "'await context.astep(...)'."
            )
        with self._using(name):
            found = _waited(self._begin(name))
            if found is not None:
                return found.result
            started_at = clock.now()
            value = self._called(name, func, args, kwargs)
            _waited(self._end(name, value, clock.now() - started_at))
            return value

    async def arun(
        self,
        name: str,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The same in an event loop, for plain functions too, which a thread runs."""
        with self._using(name):
            found = await _awaited(self._begin(name))
            if found is not None:
                return found.result
            started_at = clock.now()
            if iscoroutinefunction(func):
                value = await func(*args, **kwargs)
            else:
                value = await sync_to_async(self._called)(name, func, args, kwargs)
                if inspect.isawaitable(value):
                    value = await value
            await _awaited(self._end(name, value, clock.now() - started_at))
            return value

    def _called(
        self,
        name: str,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        self._refuse_where_nothing_lasts(name)
        value = func(*args, **kwargs)
        # Here again, since it may have left a transaction open.
        self._refuse_where_nothing_lasts(name)
        return value

    @contextlib.contextmanager
    def _using(self, name: str) -> Iterator[None]:
        """Refuse what is no step; keep the name for this step, unless it fails."""
        _check_name(name)
        self._refuse_where_nothing_lasts(name)
        with self._lock:
            if name in self._used:
                why = "its name is used already in this run"
                raise StepRefused(self._job.id, name, why)
            self._used.add(name)
        try:
            yield
        except BaseException:
            self._used.discard(name)
            raise

    def _refuse_where_nothing_lasts(self, name: str) -> None:
        why = None
        if self._context.task is not None and self._context.task.atomic:
            why = "the task is atomic, so that all of it is undone together"
        elif os.getpid() != self._process:
            why = "this is a process that the task has forked"
        else:
            for connection in connections.all(initialized_only=True):
                if _is_in_transaction(connection):
                    why = (
                        f"a transaction is open on {connection.alias!r}, which may yet be "
                        "rolled back. End it before the step, or have it inside the step"
                    )
        if why is not None:
            raise StepRefused(self._job.id, name, why)

    def _begin(self, name: str) -> _Waiting:
        """Return the step's result if it is recorded; else None, and it is to be run."""
        self._context.check()
        if self._known is None:
            # Of the first claim ever nothing can be there.
            known: set[str] = set()
            if self._store is not None and self._job.claims > 1:
                store = self._store
                known = yield from self._ask(lambda: store.names(self._job))
            self._known = known
        if name not in self._known or self._store is None:
            return None
        store = self._store
        result = yield from self._ask(lambda: store.result(self._job, name))
        if isinstance(result, BrokenJSON):
            raise ValueError(f"The recorded result of step {name!r} is no JSON.")
        return _Found(result)

    def _end(self, name: str, value: Any, seconds: float) -> _Waiting:
        """Record what the step returned."""
        text = _as_text(name, value)
        if self._store is None:
            return
        store, pause = self._store, _FIRST_BUSY_PAUSE
        self._job.has_steps = True
        first = not self._has_recorded
        while True:
            is_recorded = yield from self._ask(
                lambda: store.record(self._job, name, text, seconds, first)
            )
            if is_recorded:
                self._has_recorded = True
                return
            yield from self._pause(pause)
            pause = min(pause * 2, _LONGEST_BUSY_PAUSE)

    def _ask(self, ask: Callable[[], Future[Any]]) -> _Waiting:
        """Return the answer, asking until there is one. Raises JobRunAborted if it is too late."""
        refused = 0
        while True:
            future = ask()
            while not future.done():
                yield _Wait(future, _LOOK_EVERY)
                if not future.done() and self._context.lease_lost:
                    future.cancel()
                    self._refuse_if_lost()
            try:
                return future.result()
            except JobRunAborted as error:
                self._context.lose(error.why)
                raise
            except TryAgain as again:
                refused += not again.is_away
                if refused >= _SUSPICIOUS and again.__cause__ is not None:
                    raise again.__cause__ from None
                pause = again.pause
            yield from self._pause(pause)

    def _pause(self, seconds: float) -> _Waiting:
        # In slices, between which a JobTimeout comes through, too.
        until = clock.now() + seconds
        while (left := until - clock.now()) > 0:
            self._refuse_if_lost()
            yield _Wait(None, min(left, _LOOK_EVERY))
        self._refuse_if_lost()

    def _refuse_if_lost(self) -> None:
        why = self._context.lost_why
        if why is not None:
            raise JobRunAborted(self._job.id, why)


def _waited(waiting: _Waiting) -> Any:
    """Return what a generator of waits returns, waiting in this thread."""
    pause = threading.Event()
    while True:
        try:
            what = next(waiting)
        except StopIteration as done:
            return done.value
        if what.future is None:
            pause.wait(what.seconds)
        else:
            wait([what.future], what.seconds)


async def _awaited(waiting: _Waiting) -> Any:
    """The same without holding up the event loop."""
    while True:
        try:
            what = next(waiting)
        except StopIteration as done:
            return done.value
        if what.future is None:
            await asyncio.sleep(what.seconds)
        else:
            await _done(what.future, what.seconds)


async def _done(future: Future[Any], seconds: float) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed by now
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(tell)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await done.wait()


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"The name of a step is a text, not {name!r}.")
    if not 0 < len(name) <= LONGEST_STEP:
        raise ValueError(
            f"The name of a step has 1 to {LONGEST_STEP} characters, not {len(name)}."
        )
    broken = breaks_databases(name)
    if broken:
        raise ValueError(f"The name of a step holds {broken}: {name!r}.")


def _as_text(name: str, value: Any) -> str:
    try:
        if inspect.iscoroutine(value):
            value.close()  # else Python warns that it was never awaited
        return payloads.dump(
            value, what=f"step {name!r}", max_bytes=conf.max_result_bytes
        )
    except (TypeError, ValueError) as error:
        error.add_note(
            "The step has run, but what it returned can't be recorded, so that it would run "
            "again in a retry. Let it return None or a small JSON value, such as an id."
        )
        raise


def _is_in_transaction(connection: Any) -> bool:
    """Whether this thread has a transaction open there, but for one that a test is run in."""
    if connection.in_atomic_block:
        blocks = connection.atomic_blocks
        return not (blocks and getattr(blocks[-1], "_from_testcase", False))
    settings = connection.settings_dict
    return connection.connection is not None and (
        settings["AUTOCOMMIT"] and not connection.autocommit
    )


def _refuse_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SynchronousOnlyOperation(
        "context.step() would hold up the event loop: use 'await context.astep(...)'."
    )
