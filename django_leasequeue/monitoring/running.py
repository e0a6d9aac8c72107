"""What runs now, and which worker has it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_leasequeue import db
from django_leasequeue.fields import NOW
from django_leasequeue.models import Job
from django_leasequeue.states import Status

# Running jobs that are looked at: those whose leases end first.
MOST_RUNNING = 1000


@dataclass(frozen=True, slots=True)
class RunningJob:
    """One job that a worker has. `since`: of the claim; `seconds`: for which it has it.

    `lease_past`: whether its worker has lost it, so that another one may take it.
    """

    job: int
    task: str
    queue: str
    worker: str
    since: datetime
    seconds: float
    lease_past: bool

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "job": self.job,
            "task": self.task,
            "queue": self.queue,
            "worker": self.worker,
            "since": self.since.isoformat(),
            "seconds": self.seconds,
            "lease_past": self.lease_past,
        }


def running(using: str) -> tuple[list[RunningJob], bool]:
    """Return the running jobs, the longest first, and whether there are more than were read.

    One statement, through the index of the leases.
    """
    rows = Job.objects.using(using)
    held = rows.filter(status=Status.RUNNING, processing_until__isnull=False)
    held = held.annotate(now=NOW).order_by("processing_until", "id")
    columns = ("id", "task", "queue", "worker", "last_attempted_at")
    with db.forced(rows, "leasequeue_lease"):
        read = list(
            held.values_list(*columns, "processing_until", "now")[: MOST_RUNNING + 1]
        )
    found = [_figures(*row) for row in read[:MOST_RUNNING]]
    found.sort(key=lambda one: (one.since, one.job))
    return found, len(read) > MOST_RUNNING


def _figures(
    pk: int,
    task: str,
    queue: str,
    worker: str,
    claimed_at: Any,
    until: Any,
    now: datetime,
) -> RunningJob:
    # Only a row made by hand has no time of a claim.
    since = claimed_at or now
    seconds = max(0.0, (now - since).total_seconds())
    return RunningJob(pk, task, queue, worker, since, seconds, until <= now)
