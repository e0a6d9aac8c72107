"""The signals of a job's life. An error in a receiver is logged and changes nothing else."""

from django_leasequeue.claimed import Claimed
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Outcome
from django_leasequeue.signals import job_settled, job_started
from django_leasequeue.worker.connections import JobConnections


def started(job: Claimed) -> None:
    """Send job_started, in the thread that is about to run the job."""
    if job_started.has_listeners(Job):
        # Whatever transaction a receiver leaves open is not the job's.
        with JobConnections():
            job_started.send_robust(Job, claimed=job)


def settled(job: Claimed, outcome: Outcome) -> None:
    """Send job_settled, once the outcome is stored."""
    if job_settled.has_listeners(Job):
        with JobConnections():
            job_settled.send_robust(Job, claimed=job, outcome=outcome)
