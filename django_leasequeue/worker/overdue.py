"""The outcome of a run that did not stop at its timeout, so that its process was killed."""

from dataclasses import dataclass
from datetime import timedelta

from django_leasequeue.claimed import Claimed
from django_leasequeue.exceptions import JobTimeout
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, Failed, Outcome, RetryLater
from django_leasequeue.transitions.settle import Verdict
from django_leasequeue.worker import endings
from django_leasequeue.worker.killed import Killed, read_claimed
from django_leasequeue.worker.log import log_outcome
from django_leasequeue.worker.timed import TimedRun


@dataclass(frozen=True, slots=True)
class Overdue:
    """A run that was ended with its process, after `seconds`."""

    run: TimedRun
    seconds: float

    def settle(self, database: str) -> tuple[Verdict, Killed | None]:
        """Store that it has timed out, in place of the process, which must be dead by now.

        Returns what became of that, and the run if it was stored. LOST: the row had got its
        own outcome at the last moment, or is another worker's. Raises the database's errors.
        """
        job = self._held(database)
        if job is None:
            return Verdict.LOST, None
        outcome = self._outcome(job)
        # The process had the same token, and may have written at the last moment.
        jobs = Job.objects.using(database)
        [settled] = jobs.settle([(job, outcome)], recognise=False)
        if settled.verdict is not Verdict.WRITTEN:
            return settled.verdict, None
        outcome = Cancelled() if settled.cancelled else outcome
        log_outcome(job, outcome, self.seconds)
        return settled.verdict, Killed(job.id, job.round, outcome)

    def _outcome(self, job: Claimed) -> Outcome:
        error = JobTimeout(self.run.timeout, killed_after=self.seconds)
        entry = endings.entry(job, error)
        if self.run.wait is None:
            return Failed(entry)
        return RetryLater(timedelta(seconds=self.run.wait), entry)

    def _held(self, database: str) -> Claimed | None:
        """Return the job while it runs under the run's token."""
        rows = Job.objects.using(database).running()
        mine = rows.filter(pk=self.run.job_id, processing_token=self.run.token)
        # Of what the run was given nothing is needed any more.
        return read_claimed(mine, self.run.token, given=False)
