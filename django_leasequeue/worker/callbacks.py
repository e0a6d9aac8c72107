"""Calling what the project wants called once an outcome is stored.

First the receivers of job_settled, then the task's own `on_success`, `on_failure` or
`on_retry`. What any of them raises is logged and changes nothing.
"""

from inspect import isawaitable
from typing import Any

from asgiref.sync import async_to_sync

from django_leasequeue import origin, payloads
from django_leasequeue.claimed import Claimed
from django_leasequeue.hooks import Callback, EndedRun, load
from django_leasequeue.outcomes import Failed, Outcome, RetryLater, Succeeded
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker import events, forks
from django_leasequeue.worker.connections import JobConnections
from django_leasequeue.worker.hiding import to_be_logged
from django_leasequeue.worker.log import about, logger

_OPTIONS = {Succeeded: "on_success", Failed: "on_failure", RetryLater: "on_retry"}


def callback_of(task: TaskOptions | None, outcome: Outcome) -> Callback | None:
    """Return what the task wants called after this outcome."""
    if isinstance(outcome, RetryLater) and not outcome.counted:
        return None  # undone by trouble of the database: no attempt has failed
    option = _OPTIONS.get(type(outcome))
    return None if task is None or option is None else getattr(task, option)


def call_all(
    job: Claimed, task: TaskOptions | None, outcome: Outcome, using: str | None = None
) -> None:
    """Tell the receivers and call the callback, in this thread. Never raises.

    `using`: the job's alias.
    """
    events.settled(job, task, outcome, using)
    callback = callback_of(task, outcome)
    if callback is None:
        return
    try:
        # Whatever transaction it leaves open is not the next one's.
        with (
            JobConnections(),
            forks.Original(),
            origin.dispatched_by(origin.of_job(job.id)),
        ):
            _call(callback, ended_run(job, outcome))
    except BaseException as error:  # it may raise even SystemExit
        logger.error(
            "Job %s (%s): its callback %s raised %s; the job's outcome stays as it is.",
            job.id,
            job.task,
            _OPTIONS[type(outcome)],
            type(error).__name__,
            exc_info=to_be_logged(job, error),
            extra=about(job, callback=_OPTIONS[type(outcome)]),
        )


def _call(callback: Callback, ended: EndedRun) -> None:
    function = load(callback) if isinstance(callback, str) else callback
    made = function(ended)
    if isawaitable(made):
        async_to_sync(_awaited)(made)


async def _awaited(made: Any) -> None:
    try:
        # Of a copy only this thread is there, and whoever waits for it is not.
        with forks.Original():
            await made
    except (SystemExit, KeyboardInterrupt) as error:
        # These would end the event loop on their way out.
        raise RuntimeError(f"It raised {type(error).__name__}.") from error


def ended_run(job: Claimed, outcome: Outcome) -> EndedRun:
    """Return what a callback gets."""
    more: dict[str, Any] = {}
    match outcome:
        case Succeeded(result):
            more = {"result": None if result is None else payloads.load(result)}
        case Failed(error):
            more = {"error": error}
        case RetryLater(delay, error):
            more = {"error": error, "retry_in": delay}
        case _:
            pass
    return EndedRun(
        job_id=job.id,
        task=job.task,
        queue=job.queue,
        args=_read(job.args, list),
        kwargs=_read(job.kwargs, dict),
        meta=_read(job.meta, dict),
        attempt=job.attempts + 1,
        worker=job.worker,
        **more,
    )


def _read(text: str, kind: type) -> Any:
    """Return what the text holds, None if it is not this; such a job fails for it."""
    try:
        value = payloads.load(text)
    except (TypeError, ValueError):
        return None
    return value if isinstance(value, kind) else None
