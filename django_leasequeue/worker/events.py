"""The signals of a job's life. An error in a receiver is logged and changes nothing else."""

from asgiref.sync import sync_to_async

from django_leasequeue.claimed import Claimed
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Outcome
from django_leasequeue.signals import job_settled, job_started
from django_leasequeue.worker.connections import JobConnections, close_all
from django_leasequeue.worker.log import about, logger


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
