"""What is told of a job's life: its signals, and the end of its run.

An error in a receiver is logged and changes nothing else.
"""

from asgiref.sync import sync_to_async

from django_leasequeue.claimed import Claimed
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Outcome
from django_leasequeue.signals import job_settled, job_started
from django_leasequeue.transitions.settle import Settled, Verdict
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


def started(job: Claimed) -> None:
    """Send job_started, in the thread that is about to run the job."""
    if job_started.has_listeners(Job):
        # Whatever transaction a receiver leaves open is not the job's.
        try:
            with JobConnections():
                job_started.send_robust(Job, claimed=job)
        except BaseException as error:  # a receiver may raise even SystemExit
            logger.error(
                "Job %s (%s): telling that it starts failed; it runs all the same.",
                job.id,
                job.task,
                exc_info=error,
                extra=about(job),
            )


async def astarted(job: Claimed) -> None:
    """Send job_started, in a thread, for a job of an `async def` task."""
    if job_started.has_listeners(Job):
        await sync_to_async(_started_elsewhere, thread_sensitive=False)(job)


def _started_elsewhere(job: Claimed) -> None:
    try:
        started(job)
    finally:
        close_all()


def settled(job: Claimed, outcome: Outcome) -> None:
    """Send job_settled, once the outcome is stored."""
    if job_settled.has_listeners(Job):
        with JobConnections():
            job_settled.send_robust(Job, claimed=job, outcome=outcome)


def run_ended(run: Run, outcome: Outcome, result: Settled) -> str:
    """Log how a run ended whose outcome was written or refused; send the signal. Never raises.

    Returns the word under which it is counted: see `log`.
    """
    try:
        return _tell_end(run, outcome, result)
    except BaseException as error:  # a receiver may raise even SystemExit
        job = run.job
        logger.error(
            "Job %s (%s): telling how its run ended failed; its row is as it should be.",
            job.id,
            job.task,
            exc_info=error,
            extra=about(job),
        )
    return word_for(outcome) if _is_written(result) else LOST


def _tell_end(run: Run, outcome: Outcome, result: Settled) -> str:
    if _is_written(result):
        log_outcome(run.job, outcome, run.ended_at - (run.started_at or run.ended_at))
        settled(run.job, outcome)
        return word_for(outcome)
    run.context.lose(result.why)
    log_lost(run.job, outcome, result.holder, result.why)
    return LOST


def _is_written(result: Settled) -> bool:
    return result.verdict is Verdict.WRITTEN
