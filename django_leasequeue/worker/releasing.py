"""Giving back what a process held that runs it no more."""

from collections.abc import Sequence, Set
from typing import Generic, TypeVar
from uuid import UUID

from django_leasequeue import clock, traces
from django_leasequeue.managers import JobQuerySet
from django_leasequeue.models import Job
from django_leasequeue.transitions.settle import Verdict
from django_leasequeue.worker.killed import Killed
from django_leasequeue.worker.lease_table import Holding
from django_leasequeue.worker.overdue import Overdue

Owner = TypeVar("Owner")

# A row may stay locked for a moment, by the connection of the process that died.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
# Seconds after which a token is looked for once more whose claim was under way: its commit
# may reach the database after the process that sent it is gone.
_SECOND_LOOK = 0.3
# Seconds to try for a token of which no lease is known.
_UNKNOWN = 60.0


class PendingRelease(Generic[Owner]):
    """The tokens that an owner left, until their jobs are pending again.

    `death`: how the owner died, which is counted; None if it was told to go, or killed. Of
    an owner that was killed `overdue` are the jobs that it was killed for: they have timed
    out, and the others go back as after a stop, since it was no fault of theirs. `ran`: by
    token and id, jobs that it called: what had not started had no part in a death.
    """

    def __init__(
        self,
        owner: Owner,
        holdings: list[Holding[Owner]],
        death: str | None,
        overdue: Sequence[Overdue] = (),
        ran: Set[tuple[UUID, int]] = frozenset(),
    ) -> None:
        self.owner, self.death = owner, death
        # The jobs given back so far, and those of which nobody has heard that they are settled.
        self.ids: set[int] = set()
        self._killed: list[Killed] = []
        self._was_killed, self._overdue = bool(overdue), list(overdue)
        # The jobs that a death is counted for. Those whose outcome is stored are not held.
        held = {h.token: h.terms for h in holdings}
        self._started = {
            job_id for token, job_id in ran if job_id in (held.get(token) or ())
        }
        # When to go on, by `clock.now()`.
        self.due_at = 0.0
        self._holdings = holdings
        ends = [term.over_at for h in holdings for term in (h.terms or {}).values()]
        if any(holding.terms is None for holding in holdings):
            ends.append(clock.now() + _UNKNOWN)
        self._until = max(ends, default=0.0)
        self._looked_twice = all(holding.terms is not None for holding in holdings)
        self._pause = _FIRST_PAUSE

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to give back."""
        return not self._holdings and not self._overdue

    @property
    def is_over(self) -> bool:
        """Whether every lease in it is past, so that the next claim takes the jobs anyway."""
        return clock.now() >= self._until

    @property
    def why(self) -> str:
        """Why the jobs are given back."""
        if self._was_killed:
            return "a job beside them did not stop at its timeout"
        return self.death or "the worker stops"

    @property
    def _word(self) -> str | None:
        """The same for their events; of jobs that had no part in a death there is none."""
        if self._was_killed:
            return traces.NEIGHBOUR_TIMEOUT
        return None if self.death else traces.WORKER_STOPS

    def take_killed(self) -> list[Killed]:
        """Return those that have been settled since the last call."""
        taken, self._killed = self._killed, []
        return taken

    def give_back(self, database: str) -> None:
        """Give back what is not locked by somebody else.

        Raises the last of the database's errors, once every token has been tried.
        """
        busy = [late for late in self._overdue if self._is_busy(late, database)]
        self._overdue = busy
        jobs, left, failure = Job.objects.using(database), [], None
        for holding in self._holdings:
            if any(late.run.token == holding.token for late in busy):
                # An overdue job would be given back with the others.
                left.append(holding)
                continue
            try:
                held = self._release(jobs, holding.token)
            except Exception as error:
                held, failure = True, error
            if held or (holding.terms is None and not self._looked_twice):
                left.append(holding)
        if failure is not None:
            self._holdings = left
            raise failure
        pause = self._pause if self._looked_twice else _SECOND_LOOK
        self._holdings, self._looked_twice = left, True
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        self.due_at = clock.now() + pause

    def _release(self, jobs: JobQuerySet, token: UUID) -> bool:
        """Give back the jobs of a token; return whether it still holds any."""
        mine = jobs.running().filter(processing_token=token).order_by()
        if self.death and self._started:
            alone = len(self._started) == 1
            self.ids |= jobs.release(token, self._started, self.death, alone=alone)
            # One of those that is locked now must be counted later.
            others = mine.exclude(pk__in=self._started).values_list("pk", flat=True)
            self.ids |= jobs.release(token, list(others))
        else:
            self.ids |= jobs.release(token, why=self._word)
        return mine.exists()

    def _is_busy(self, late: Overdue, database: str) -> bool:
        """Have an overdue job settled; return whether somebody holds its row locked."""
        verdict, killed = late.settle(database)
        if killed is not None:
            self._killed.append(killed)
        return verdict is Verdict.BUSY
