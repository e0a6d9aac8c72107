"""What workers do to jobs."""

from collections import Counter
from collections.abc import Callable, Collection
from uuid import UUID

from django_leasequeue import slots, transitions
from django_leasequeue.claimed import Claimed
from django_leasequeue.managers.marks import alters_data
from django_leasequeue.managers.rows import OfJobs
from django_leasequeue.outcomes import Outcome
from django_leasequeue.selection import Selection


class Work(OfJobs):
    """What workers do to jobs, and everybody's `prune`."""

    @alters_data
    def claim(
        self,
        selection: Selection,
        limit: int,
        token: UUID,
        worker: str,
        *,
        expired: bool = True,
        since: float | None = None,
        alone: bool = False,
    ) -> transitions.claim.Claim:
        """See transitions.claim.claim."""
        return transitions.claim.claim(
            self._rows(), selection, limit, token, worker, expired, since, alone
        )

    @alters_data
    def claim_job(self, pk: int, token: UUID, worker: str) -> Claimed | None:
        """See transitions.claim.claim_job."""
        return transitions.claim.claim_job(self._rows(), pk, token, worker)

    @alters_data
    def call_forgotten(self, after: str = "") -> tuple[str, bool]:
        """See slots.look_for_forgotten."""
        return slots.look_for_forgotten(self._rows(), after)

    @alters_data
    def prune_slots(self) -> int:
        """See slots.prune."""
        return slots.prune(self._rows())

    def cancel_requested(self, tokens: list[UUID]) -> dict[UUID, set[int]]:
        """See transitions.cancel.requested."""
        return transitions.cancel.requested(self._rows(), tokens)

    @alters_data
    def progress(self, job: Claimed, text: str) -> bool:
        """See transitions.progress."""
        return transitions.progress.progress(self._rows(), job, text)

    @alters_data
    def record_step(
        self, job: Claimed, name: str, result: str, seconds: float, *, first: bool
    ) -> bool:
        """See transitions.step."""
        return transitions.step.record_step(
            self._rows(), job, name, result, seconds, first
        )

    @alters_data
    def renew(self, token: UUID) -> transitions.renew.Renewal:
        """See transitions.renew."""
        return self.renew_all([token])[token]

    @alters_data
    def renew_all(self, tokens: list[UUID]) -> dict[UUID, transitions.renew.Renewal]:
        """See transitions.renew."""
        return transitions.renew.renew(self._rows(), tokens)

    @alters_data
    def settle(
        self,
        finished: list[tuple[Claimed, Outcome]],
        *,
        with_writes: bool = False,
        recognise: bool = True,
    ) -> list[transitions.settle.Settled]:
        """See transitions.settle."""
        return transitions.settle.settle(self._rows(), finished, with_writes, recognise)

    @alters_data
    def release(
        self,
        token: UUID,
        ids: Collection[int] | None = None,
        death: str | None = None,
        *,
        alone: bool = False,
        why: str | None = None,
    ) -> set[int]:
        """See transitions.release."""
        return transitions.release.release(self._rows(), token, ids, death, alone, why)

    @alters_data
    def start_after_groups(
        self, seen: transitions.groups.Seen | None = None
    ) -> transitions.groups.Looked:
        """See transitions.groups."""
        return transitions.groups.start(self._rows(), seen)

    @alters_data
    def prune(
        self,
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after_step: Callable[[], bool] | None = None,
    ) -> Counter[str]:
        """Remove finished jobs that the rules of retention keep no longer.

        `queue`: of this one alone. `dry_run`: only count them. `after_step`: called after
        every few hundred rows, each of which are removed in a transaction of their own; if
        it returns False, that was the last. Returns a Counter by status. The tasks have to
        be imported, or their own rules are not known.
        """
        return transitions.prune.prune(self._rows(), queue, dry_run, after_step)
