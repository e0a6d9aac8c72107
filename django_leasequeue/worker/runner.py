"""The runner: a job goes in, what its run came to goes out. Nothing is written here.

Look up the task, refuse what keeps killing its workers, read the arguments, call, and turn
what was returned or raised into an outcome (see `endings`). Whatever a task does ends its
own run and no more.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import (
    SyncToAsync,
    ThreadSensitiveContext,
    async_to_sync,
    sync_to_async,
)

from django_leasequeue import origin
from django_leasequeue.claimed import Claimed
from django_leasequeue.outcomes import Outcome
from django_leasequeue.worker import connections, endings, forks
from django_leasequeue.worker.call import Call, prepare, taken
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.log import about, logger
from django_leasequeue.worker.middleware import NOTHING, Around, around


def run(
    job: Claimed, context: JobContext, begin: Callable[[], None] | None = None
) -> Outcome:
    """Run a job's task in this thread and return what came of it.

    For `async def` tasks too, in an event loop of its own. Never raises, and does not write
    the row. A process that the task forked and that comes back from the task is ended.
    `begin()` is called before the task, unless it can't be called at all.
    """
    try:
        call = prepare(job, context)
        if not isinstance(call, Call):
            return call
        if begin is not None:
            begin()
        return perform(job, context, call)
    except Exception as error:
        return unexpected(job, error)


async def arun(
    job: Claimed,
    context: JobContext,
    begin: Callable[[], Awaitable[None]] | None = None,
) -> Outcome:
    """Run the job of an `async def` task in this event loop; otherwise as run() does.

    Django's connections are the job's own, in a thread of its own that is made once it uses
    them. Raises CancelledError if the caller cancels it: such a run has no outcome, and the
    job is to be given back. A CancelledError of the task's own making is a failed attempt.
    """
    try:
        call = prepare(job, context)
        if not isinstance(call, Call):
            return call
        if begin is not None:
            await begin()
        if not call.task.is_async:
            return await sync_to_async(perform)(job, context, call)
        return await _perform_here(job, context, call)
    except Exception as error:
        return unexpected(job, error)


def perform(job: Claimed, context: JobContext, call: Call) -> Outcome:
    """Call the task in this thread, within the middleware; see perform_within()."""
    within = around(job, context)
    if within is NOTHING or call.task.is_async:
        # Of such a task the middleware is entered in the event loop.
        return perform_within(within, job, context, call)
    with within:
        return perform_within(within, job, context, call)


def perform_within(
    within: Around, job: Claimed, context: JobContext, call: Call
) -> Outcome:
    """Call the task in this thread, with its connections looked after.

    `within`: the middleware, which has been entered, unless the task is `async def`.
    """
    with connections.JobConnections() as mine:
        if call.task.is_async:
            # Around it all: what the task raises must not reach the event loop, which
            # SystemExit and KeyboardInterrupt would end.
            outcome = async_to_sync(_awaited)(within, job, context, call)
        else:
            outcome = _called(within, job, context, call)
        if context.limit.is_exceeded:
            # The task may have been interrupted in the middle of a statement.
            mine.distrust()
    if mine.left_open:
        return endings.left_open(job, call.task, outcome, mine.left_open)
    return outcome


async def _perform_here(job: Claimed, context: JobContext, call: Call) -> Outcome:
    left_open: list[str] = []
    within = around(job, context)
    async with ThreadSensitiveContext() as own:
        # In an asyncio.Task of its own, so that a task that cancels itself is told apart
        # from a caller that cancels this run.
        running = asyncio.create_task(
            _awaited(within, job, context, call, asyncio.current_task())
        )
        try:
            outcome = await running
        finally:
            if _has_thread(own):
                left_open = await sync_to_async(connections.close_all)()
    if left_open:
        return endings.left_open(job, call.task, outcome, left_open)
    return outcome


def _called(within: Around, job: Claimed, context: JobContext, call: Call) -> Outcome:
    process, limit = os.getpid(), context.limit
    before = origin.enter(origin.of_job(job.id))
    limit.start()
    try:
        if limit.deadline is None:
            value = call.function()
        else:
            with limit.in_thread():
                value = call.function()
        value = taken(call, value)
    except BaseException as error:
        _ended(process, context, error)
        within.error = error
        return endings.raised(job, call.task, context, error)
    finally:
        origin.leave(before)
    _ended(process, context, None)
    return endings.returned(job, call.task, context, value)


async def _awaited(
    within: Around,
    job: Claimed,
    context: JobContext,
    call: Call,
    caller: asyncio.Task[Any] | None = None,
) -> Outcome:
    async with within:
        return await _awaited_within(within, job, context, call, caller)


async def _awaited_within(
    within: Around,
    job: Claimed,
    context: JobContext,
    call: Call,
    caller: asyncio.Task[Any] | None,
) -> Outcome:
    process = os.getpid()
    before = origin.enter(origin.of_job(job.id))
    context.limit.start()
    try:
        with context.limit.in_coroutine():
            value = await call.function()
        value = taken(call, value)
    except BaseException as error:
        _ended(process, context, error)
        within.error = error
        if isinstance(error, asyncio.CancelledError) and caller and caller.cancelling():
            raise
        return endings.raised(job, call.task, context, error)
    finally:
        origin.leave(before)
    _ended(process, context, None)
    return endings.returned(job, call.task, context, value)


def _ended(process: int, context: JobContext, error: BaseException | None) -> None:
    if os.getpid() != process:
        forks.end_copy(error)
    context.limit.end()


def _has_thread(own: ThreadSensitiveContext) -> bool:
    return own in SyncToAsync.context_to_thread_executor


def unexpected(job: Claimed, error: Exception) -> Outcome:
    """A fault of the worker's own must not lose the job, nor run it for ever."""
    logger.exception(
        "Job %s (%s) could not be run.", job.id, job.task, extra=about(job)
    )
    return endings.failure(job, None, error)
