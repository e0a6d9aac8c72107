"""What is done to jobs by hand: by a person, or by the project's own code."""

from collections.abc import Mapping

from asgiref.sync import sync_to_async

from django_leasequeue import transitions
from django_leasequeue.managers.marks import queryset_only
from django_leasequeue.managers.rows import OfJobs


class ByHand(OfJobs):
    """What is done to the jobs of a queryset."""

    @queryset_only
    def cancel(self) -> transitions.cancel.Cancellation:
        """Cancel these jobs: pending ones at once, running ones as soon as they look.

        Returns a transitions.cancel.Cancellation: which were cancelled, asked, locked by
        somebody else, or had ended before. Only on a queryset, never on all jobs by mistake.
        """
        rows, ids = self._chosen()
        done = transitions.cancel.cancel(rows, ids)
        if done.cancelled:
            transitions.groups.start_on_commit(rows)
        return done

    @queryset_only
    async def acancel(self) -> transitions.cancel.Cancellation:
        """See cancel()."""
        return await sync_to_async(self.cancel)()

    @queryset_only
    def retry(self) -> transitions.retry.Retrial:
        """Run these jobs again, those that have finished: each in a new round, due now.

        Attempts, steps, result and progress start anew, the errors stay. Returns a
        transitions.retry.Retrial: which were retried, and which not, and why. A job whose
        dedup id another job holds by now stays as it is. Only on a queryset.

        At most 500 jobs in a transaction, or all in the caller's: then their rows stay
        locked until that ends, and a rollback undoes the retry. Raises the database's error
        if passing trouble does not pass within 10 s.
        """
        return transitions.retry.retry(*self._chosen())

    @queryset_only
    async def aretry(self) -> transitions.retry.Retrial:
        """See retry()."""
        return await sync_to_async(self.retry)()

    @queryset_only
    def run_now(self) -> transitions.run_now.MadeDue:
        """Make these jobs due, those that wait for their time or their next attempt.

        Returns a transitions.run_now.MadeDue: which were made due, and which not, and why.
        Nothing else that a job waits for is passed by: its queue's pause, others of its
        concurrency key, a group. Only on a queryset, never on all jobs by mistake.
        """
        return transitions.run_now.run_now(*self._chosen())

    @queryset_only
    async def arun_now(self) -> transitions.run_now.MadeDue:
        """See run_now()."""
        return await sync_to_async(self.run_now)()

    @queryset_only
    def force_release(
        self, claims: Mapping[int, int] | None = None
    ) -> transitions.force_release.ForcedRelease:
        """Take these jobs from their workers, those that run: they wait again, due at once.

        For a worker that hangs. It is told by its next renewal, a third of the lease later at
        the most, and can write nothing any more; until it is told, the job may run twice at
        one time. Neither an attempt nor a recovery is counted.

        `claims`: `Job.claims` as it was seen, by id. A job that was claimed since then stays
        with whoever has it now; of a job that is not named any run is meant.

        Returns a transitions.force_release.ForcedRelease: which were released, which were
        cancelled, since that had been asked for, and which not, and why. Only on a queryset.
        """
        rows, ids = self._chosen()
        done = transitions.force_release.force_release(rows, ids, claims)
        if done.cancelled:
            transitions.groups.start_on_commit(rows)
        return done

    @queryset_only
    async def aforce_release(
        self, claims: Mapping[int, int] | None = None
    ) -> transitions.force_release.ForcedRelease:
        """See force_release()."""
        return await sync_to_async(self.force_release)(claims)

    @queryset_only
    def remove(self) -> transitions.remove.Removal:
        """Remove the rows of these jobs, those that wait or have ended, with their steps.

        Other than delete(), which is Django's and asks nobody: a job that runs stays, one
        that is being claimed stays or is never run, and so does one whose dedup window
        lasts. Returns a transitions.remove.Removal: which were removed, and which not, and
        why. Only on a queryset, never on all jobs by mistake.
        """
        rows, ids = self._chosen()
        done = transitions.remove.remove(rows, ids)
        if done.removed:
            transitions.groups.start_on_commit(rows)
        return done

    @queryset_only
    async def aremove(self) -> transitions.remove.Removal:
        """See remove()."""
        return await sync_to_async(self.remove)()
