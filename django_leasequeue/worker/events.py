"""What is told of a job's life: its signals, and the end of its run.

An error in a receiver is logged and changes nothing else.
"""

from typing import Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal

from django_leasequeue import signals
from django_leasequeue.claimed import Claimed
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, Outcome
from django_leasequeue.transitions.settle import Settled, Verdict
from django_leasequeue.worker import forks
from django_leasequeue.worker.connections import JobConnections, close_all
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
    if not signal.has_listeners(Job):
        return
    try:
        # Whatever transaction a receiver leaves open is not the job's.
        with JobConnections(), forks.Original():
            answers = signal.send_robust(Job, claimed=job, **more)
    except BaseException as error:  # a receiver may raise even SystemExit
        _tell_error(signal, job, "a receiver, the last that was called", error)
        return
    for receiver, answer in answers:
        if isinstance(answer, Exception):
            _tell_error(signal, job, repr(receiver), answer)


def started(job: Claimed) -> None:
    """Send job_started, in the thread that is about to run the job."""
    send(signals.job_started, job)


async def astarted(job: Claimed) -> None:
    """Send job_started, in a thread, for a job of an `async def` task."""
    if signals.job_started.has_listeners(Job):
        await sync_to_async(_started_elsewhere, thread_sensitive=False)(job)


def _started_elsewhere(job: Claimed) -> None:
    try:
        started(job)
    finally:
        close_all()


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


def _tell_error(signal: Signal, job: Claimed, who: str, error: BaseException) -> None:
    name = "job_started" if signal is signals.job_started else "job_settled"
    logger.error(
        "Job %s (%s): in %s, %s raised %s; nothing of the job changes.",
        job.id,
        job.task,
        name,
        who,
        type(error).__name__,
        exc_info=error,
        extra=about(job, signal=name),
    )
