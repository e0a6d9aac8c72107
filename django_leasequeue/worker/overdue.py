"""The outcome of a run that did not stop at its timeout, so that its process was killed."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import ExpressionWrapper, F, TextField

from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import JobTimeout
from django_leasequeue.fields import UTCDateTimeField
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, Outcome, RetryLater
from django_leasequeue.transitions.settle import Verdict
from django_leasequeue.worker import endings
from django_leasequeue.worker.log import log_outcome
from django_leasequeue.worker.timed import TimedRun

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
    "errors_text",
    "worker",
)


@dataclass(frozen=True, slots=True)
class Overdue:
    """A run that was ended with its process, after `seconds`."""

    run: TimedRun
    seconds: float

    def settle(self, database: str) -> tuple[Verdict, Outcome | None]:
        """Store that it has timed out, in place of the process, which must be dead by now.

        Returns what became of that, and the outcome. LOST: the row had got its own outcome
        at the last moment, or is another worker's. Raises the database's errors.
        """
        job = self._held(database)
        if job is None:
            return Verdict.LOST, None
        outcome = self._outcome(job)
        [settled] = Job.objects.using(database).settle([(job, outcome)])
        if settled.verdict is Verdict.WRITTEN:
            log_outcome(job, outcome, self.seconds)
        return settled.verdict, outcome

    def _outcome(self, job: Claimed) -> Outcome:
        error = JobTimeout(self.run.timeout, killed_after=self.seconds)
        entry = endings.entry(job, error)
        if self.run.wait is None:
            return Failed(entry)
        return RetryLater(timedelta(seconds=self.run.wait), entry)

    def _held(self, database: str) -> Claimed | None:
        """Return the job while it runs under the run's token."""
        mine = {"pk": self.run.job_id, "processing_token": self.run.token}
        now = ExpressionWrapper(DatabaseNow(), UTCDateTimeField())
        # As a claim reads it: a broken text is for this job's next error to meet.
        errors = ExpressionWrapper(F("errors"), TextField())
        rows = Job.objects.using(database).running().filter(**mine)
        shown = rows.annotate(now=now, errors_text=errors)
        for values in shown.values("now", *_COLUMNS):
            return Claimed(
                claimed_at=values.pop("now"),
                token=self.run.token,
                lease=conf.lease(values["queue"]),
                buffer=conf.safety_buffer(values["queue"]),
                # Of what the run was given nothing is needed any more.
                args="",
                kwargs="",
                meta="",
                **values,
            )
        return None
