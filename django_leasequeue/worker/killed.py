"""Runs that were killed with their process: another child calls what follows them.

The supervisor stores such a run's outcome and runs no code of the project's, so it tells a
child, over the pipe, what it has stored. The rest the child reads in the row, which may be
that of another round by then, with arguments of its own.
"""

from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import UUID, uuid4

from django.db.models import ExpressionWrapper, F, TextField

from django_leasequeue import clock, registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.fields import NOW
from django_leasequeue.managers import JobQuerySet
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, Failed, Outcome, RetryLater
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.running import Run

_COLUMNS = (
    "id",
    "queue",
    "task",
    "attempts",
    "max_attempts",
    "recoveries",
    "lost_alone",
    "claims",
    "round",
    "concurrency_key",
    "worker",
)
_GIVEN = ("args", "kwargs", "meta")


@dataclass(frozen=True, slots=True, eq=False)
class Killed:
    """A run that did not stop at its timeout, and the outcome that is stored for it."""

    job_id: int
    round: int
    outcome: Outcome

    def to_message(self) -> dict[str, Any]:
        """Return what a child is told."""
        outcome, wait = self.outcome, None
        if isinstance(outcome, RetryLater):
            wait = outcome.delay.total_seconds()
        error = getattr(outcome, "error", None)
        return {
            "do": "killed",
            "id": self.job_id,
            "round": self.round,
            "error": error,
            "wait": wait,
        }

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> "Killed":
        """Return what the supervisor tells."""
        error, wait = message["error"], message["wait"]
        outcome: Outcome = Cancelled()
        if wait is not None:
            outcome = RetryLater(timedelta(seconds=wait), error)
        elif error is not None:
            outcome = Failed(error)
        return cls(message["id"], message["round"], outcome)

    def run(self, database: str) -> Run | None:
        """Return the run as if it had ended here; None if its row is gone."""
        job = read_claimed(Job.objects.using(database).filter(pk=self.job_id), uuid4())
        if job is None:
            return None
        match self.outcome:
            case Failed(error) | RetryLater(error=error):
                # By now the row may be of a later run.
                job.attempts, job.worker = error["attempt"] - 1, error["worker"]
        if job.round != self.round:
            job.args = job.kwargs = ""  # which is no JSON: they are not known
        try:
            task = registry.get(job.task)
        except UnknownTask:
            task = None
        run = Run(job, task, JobContext(job, task, Event()))
        run.closed, run.stored = True, self.outcome
        return run


def read_claimed(rows: JobQuerySet, token: UUID, given: bool = True) -> Claimed | None:
    """Return the only one of these rows as a claim with this token would; None if none is.

    `given`: whether to read arguments and meta.
    """
    # As a claim reads them: a broken text is for the job's next error to meet.
    names = ("errors", *(_GIVEN if given else ()))
    texts = {f"{name}_text": ExpressionWrapper(F(name), TextField()) for name in names}
    columns = ("now", "last_attempted_at", *texts, *_COLUMNS)
    for values in rows.annotate(now=NOW, **texts).values(*columns):
        read_at, since = values.pop("now"), values.pop("last_attempted_at")
        since = since or read_at
        return Claimed(
            claimed_at=since,
            received_at=clock.now() - (read_at - since).total_seconds(),
            token=token,
            lease=conf.lease(values["queue"]),
            buffer=conf.safety_buffer(values["queue"]),
            **{name: values.pop(f"{name}_text", "") for name in _GIVEN},
            **values,
        )
    return None
