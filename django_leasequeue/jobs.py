"""What can be done with a job from code, beside the verbs of `Job.objects`."""

import contextlib

from django.db import transaction

from django_leasequeue import db
from django_leasequeue.exceptions import JobNotRunnable


def run_job(job_id: int, *, using: str | None = None) -> str:
    """Run the pending job of this id here and now, and return how that has ended.

    Whether it is due or not, and also if its queue is paused. It is claimed, so that no
    worker runs it as well, its lease is renewed, and its outcome is stored: an attempt like
    any other, and a retry is for whoever takes it then. The call waits for the run's end.

    `using`: the database's alias. Returns "succeeded", "failed", "to be retried", "snoozed",
    "cancelled", "lost" (the lease was, so that the outcome does not count) or "given back"
    (a signal has ended the run). Raises JobNotRunnable for a job that is not pending,
    RuntimeError in a transaction, or if autocommit is off, and TypeError for what is no id.
    Everything is done in other threads, so the caller's connections stay as they are.
    """
    # Here, since this module may be imported before the models can be.
    from django_leasequeue.worker import single

    return single.run(job_id, using)


def run_at_once(job_id: int, using: str) -> None:
    """Run a job that was dispatched just now, if it is due: what IMMEDIATE asks for.

    Not in a transaction that is still open, as that of a TestCase is.
    """
    from django_leasequeue.models import Job

    if db.in_transaction(transaction.get_connection(using)):
        return
    if Job.objects.using(using).due().filter(pk=job_id).exists():
        # A worker may have been quicker.
        with contextlib.suppress(JobNotRunnable):
            run_job(job_id, using=using)
