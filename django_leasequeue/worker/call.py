"""What has to be true before a job's task is called, and the call itself."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from django_leasequeue import payloads, registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.outcomes import Outcome
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker import endings
from django_leasequeue.worker.context import JobContext

_UNDONE = {
    CoroutineType: "a coroutine that was not awaited",
    GeneratorType: "a generator, of which nothing has run",
    AsyncGeneratorType: "an async generator, of which nothing has run",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A task with its arguments in place: `function()` runs it."""

    task: TaskOptions
    function: Callable[[], Any]


def prepare(job: Claimed, context: JobContext) -> Call | Outcome:
    """Return the call of the job's task, or the outcome of a job that can't be called."""
    try:
        task = registry.get(job.task)
    except UnknownTask as error:
        return endings.unknown_task(job, error)
    if job.recoveries or job.lost_alone:
        limit = task.max_recoveries
        if limit is None:
            limit = conf.max_recoveries(job.queue)
        # A task that is never to be run again after a loss isn't, whoever's fault it was.
        if max(job.lost_alone, min(job.recoveries, 1)) > limit:
            return endings.workers_lost(job, limit)
    try:
        args, kwargs = _arguments(job)
        task.bind(args, kwargs)
    except (TypeError, ValueError) as error:
        return endings.failure(job, task, error)
    if task.takes_context:
        args = [context, *args]
    return Call(task, partial(task.func, *args, **kwargs))


def taken(call: Call, value: Any) -> Any:
    """Return what the task returned, as its front door wants it stored.

    Raises TypeError if it is work that nobody has done, or UnsupportedResult.
    """
    if type(value) in _UNDONE:
        what = _UNDONE[type(value)]
        if hasattr(value, "close"):
            value.close()  # else Python warns that it was never awaited
        raise TypeError(
            f"The task returned {what}. Make the task a plain function or `async def` that "
            "does the work before it returns."
        )
    return value if call.task.door is None else call.task.door.taken(value)


def _arguments(job: Claimed) -> tuple[list[Any], dict[str, Any]]:
    args = _parsed(job.args, "args", list)
    return args, _parsed(job.kwargs, "kwargs", dict)


def _parsed(text: str, what: str, kind: type) -> Any:
    try:
        value = payloads.load(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The job's {what} are not JSON: {error}") from error
    if not isinstance(value, kind):
        raise TypeError(
            f"The job's {what} are a {type(value).__name__}, not a {kind.__name__}."
        )
    return value
