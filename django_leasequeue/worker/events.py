"""What is told of a job's life: its signals, and the end of its run.

An error in a receiver is logged and changes nothing else.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal

from django_leasequeue import signals
from django_leasequeue.claimed import Claimed
from django_leasequeue.frontdoor import Answers
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, Outcome
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.transitions.settle import Settled, Verdict
from django_leasequeue.worker import forks
from django_leasequeue.worker.connections import JobConnections, close_all
from django_leasequeue.worker.hiding import to_be_logged
from django_leasequeue.worker.log import (
    LOST,
    about,
    log_lost,
    log_outcome,
    logger,
    word_for,
)
from django_leasequeue.worker.running import Run


def send(signal: Signal, job: Claimed, **more: Any) -> None:
    """Send a signal about a job in this thread. Never raises."""
    # Asking takes longer than looking, and most projects have none.
    if signal.receivers and signal.has_listeners(Job):
        name = "job_started" if signal is signals.job_started else "job_settled"
        _tell(name, job, partial(signal.send_robust, Job, claimed=job, **more))


def started(
    job: Claimed, task: TaskOptions | None = None, using: str | None = None
) -> None:
    """Send job_started, in the thread that is about to run the job.

    And what the front door sends by which its task came. `using`: the job's alias.
    """
    send(signals.job_started, job)
    if task is not None and task.door is not None:
        _tell("task_started", job, partial(task.door.started, job, using))


async def astarted(job: Claimed, task: TaskOptions | None, using: str) -> None:
    """Send the same, in a thread, for a job of an `async def` task."""
    has_door = task is not None and task.door is not None
    if has_door or signals.job_started.has_listeners(Job):
        await sync_to_async(_started_elsewhere, thread_sensitive=False)(
            job, task, using
        )


def _started_elsewhere(job: Claimed, task: TaskOptions | None, using: str) -> None:
    try:
        started(job, task, using)
    finally:
        close_all()


def is_told(task: TaskOptions | None, outcome: Outcome) -> bool:
    """Whether the front door of a task tells of this outcome."""
    return task is not None and task.door is not None and task.door.is_told(outcome)


def settled(
    job: Claimed, task: TaskOptions | None, outcome: Outcome, using: str | None
) -> None:
    """Send job_settled, and what the front door of its task sends."""
    send(signals.job_settled, job, outcome=outcome)
    if task is not None and task.door is not None and task.door.is_told(outcome):
        _tell("task_finished", job, partial(task.door.ended, job, outcome, using))


def run_ended(run: Run, outcome: Outcome, result: Settled) -> str:
    """Log how a run ended whose outcome was written or refused, and note it in the run.

    Returns the word under which it is counted: see `log`.
    """
    job = run.job
    if result.verdict is not Verdict.WRITTEN:
        run.context.lose(result.why)
        log_lost(job, outcome, result.holder, result.why)
        return LOST
    run.stored = Cancelled() if result.cancelled else outcome
    log_outcome(job, run.stored, run.ended_at - (run.started_at or run.ended_at))
    return word_for(run.stored)


def _tell(name: str, job: Claimed, call: Callable[[], Answers]) -> None:
    try:
        # Whatever transaction a receiver leaves open is not the job's.
        with JobConnections(), forks.Original():
            answers = call()
    except BaseException as error:  # a receiver may raise even SystemExit
        _tell_error(name, job, "a receiver, the last that was called", error)
        return
    for receiver, answer in answers:
        if isinstance(answer, Exception):
            _tell_error(name, job, repr(receiver), answer)


def _tell_error(name: str, job: Claimed, who: str, error: BaseException) -> None:
    logger.error(
        "Job %s (%s): in %s, %s raised %s; nothing of the job changes.",
        job.id,
        job.task,
        name,
        who,
        type(error).__name__,
        exc_info=to_be_logged(job, error),
        extra=about(job, signal=name),
    )
