"""The keeper: the thread that renews leases, and gives back the jobs of those who are gone.

It knows tokens, each with an owner. A token comes in before its claim is sent, gets its
jobs, loses them as they finish, and goes with the last one, or when its owner is let go.
Every token is renewed at a third of its shortest lease. While the database is away, it
tries again soon, and once a lease must be taken for over it says so: the job is lost.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from django.db import connections

from django_leasequeue import clock, db
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.transitions.renew import Renewal
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.heartbeat import Heartbeat
from django_leasequeue.worker.killed import Killed
from django_leasequeue.worker.lease_table import Holding, LeaseTable, TermValues
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.outage import Outage
from django_leasequeue.worker.overdue import Overdue
from django_leasequeue.worker.releasing import PendingRelease
from django_leasequeue.worker.vital import vital_thread
from django_leasequeue.worker.wakeup import Wakeup

Owner = TypeVar("Owner", contravariant=True)
Held = TypeVar("Held")

# The longest sleep, in seconds: sleeping stops with the machine's own clock, while leases
# go on ending when it is suspended.
_LOOK_EVERY = 5.0
# Tokens that are renewed at once.
_TOKENS = 500
# Seconds between looks for cancels: one small indexed read, only while jobs run.
_CANCELS_EVERY = 1.0


_NOW = ("pk", "status", "worker")


class Audience(Protocol[Owner]):
    """Who is told what the keeper does and sees; all are called in its thread."""

    def is_stopped(self, owner: Owner) -> bool:
        """Whether the owner does nothing at all, so that its jobs are for others to run."""
        ...

    def renewed(self, owner: Owner, token: UUID, ids: set[int], at: float) -> None:
        """These leases start anew at `at`, by `clock.now()`."""

    def lost(self, owner: Owner, token: UUID, ids: set[int], why: str) -> None:
        """These jobs are no longer the owner's."""

    def cancelled(self, owner: Owner, token: UUID, ids: set[int]) -> None:
        """Somebody asked for these jobs to be cancelled. Told again until they have ended."""

    def settled(self, owner: Owner, killed: Killed) -> None:
        """A job of this owner, which is dead, has got its outcome here."""

    def given_back(self, owner: Owner, ids: set[int]) -> None:
        """All that this owner left is pending again, or its leases have ended."""


class Keeper(Generic[Held]):
    """Renews and gives back in a thread of its own, from `start()` to `close()`."""

    def __init__(
        self,
        database: str,
        leases: LeaseTable[Held],
        audience: Audience[Held],
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._database, self._leases, self._audience = database, leases, audience
        self._heartbeat = heartbeat
        self._releases: list[PendingRelease[Held]] = []
        self._outage = Outage("renew leases", database)
        self._bounded = Bounded(database)
        self._release_outage = Outage("give jobs back", database)
        self._cancels_outage = Outage("look for cancels", database)
        self._showing_outage = Outage("show this worker", database)
        self._wakeup = Wakeup()
        # When to renew again after a failure, by `clock.now()`.
        self._retry_at = 0.0
        # When to look for cancels next, by `clock.now()`, while jobs are held.
        self._cancels_at = 0.0
        self._deadline: float | None = None
        self._thread = vital_thread(self._work, name="leasequeue-keeper")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def announce(self, token: UUID, owner: Held) -> None:
        """Take care of a token that a claim is about to use."""
        self._leases.announce(token, owner)
        self._wakeup.wake()

    def claimed(self, token: UUID, terms: Mapping[TermValues, list[int]]) -> None:
        """Take care of the jobs that a claim took: see LeaseTable.claimed."""
        self._leases.claimed(token, terms)
        self._wakeup.wake()

    def give_back(
        self,
        owner: Held,
        death: str | None,
        overdue: Sequence[Overdue] = (),
        ran: Set[tuple[UUID, int]] = frozenset(),
    ) -> None:
        """Give back all that an owner holds. For the others see PendingRelease."""
        left = self._leases.leave(owner)
        self._releases.append(PendingRelease(owner, left, death, overdue, ran))
        self._wakeup.wake()

    def close(self, seconds: float) -> None:
        """Finish what is to be given back, for so long at the most, and end the thread."""
        self._deadline = clock.now() + seconds
        self._wakeup.wake()
        self._thread.join(seconds)

    def _work(self) -> None:
        try:
            self._turn()
            while not self._is_done():
                self._wakeup.sleep(self._pause())
                self._turn()
            if self._heartbeat is not None:
                self._heartbeat.close()
        finally:
            connections.close_all()

    def _is_done(self) -> bool:
        if self._deadline is None:
            return False
        return not self._releases or clock.now() >= self._deadline

    def _pause(self) -> float:
        now = clock.now()
        times = [now + _LOOK_EVERY]
        next_due = self._leases.next_due()
        if next_due is not None:
            times.append(next_due)
        if self._leases.held():
            times.append(self._cancels_at)
        if self._heartbeat is not None:
            times.append(self._heartbeat.due_at)
        times = [max(time, self._retry_at) for time in times]
        times += [release.due_at for release in self._releases]
        if self._deadline is not None:
            times.append(self._deadline)
        return min(*times, now + _LOOK_EVERY) - now

    def _turn(self) -> None:
        # The leases first, and each thing on its own: whatever fails, and for whatever
        # reason, the other leases must not end for it.
        if clock.now() >= self._retry_at:
            self._renew_due()
        for release in list(self._releases):
            self._settle(release)
        if clock.now() >= self._retry_at:
            self._aside(self._look_for_cancels, self._cancels_outage)
            if self._heartbeat is not None and self._heartbeat.due_at <= clock.now():
                self._aside(self._heartbeat.beat, self._showing_outage)
        for holding, ids in self._leases.take_over():
            why = "it could not be renewed in time"
            self._audience.lost(holding.owner, holding.token, ids, why)
        for release in list(self._releases):
            if release.is_settled or release.is_over:
                self._releases.remove(release)
                self._tell(release)

    def _renew_due(self) -> None:
        due, failure = self._leases.due(), None
        stopped = [
            holding for holding in due if self._audience.is_stopped(holding.owner)
        ]
        self._leases.postpone(stopped)
        due = [holding for holding in due if holding not in stopped]
        parts = [due[start : start + _TOKENS] for start in range(0, len(due), _TOKENS)]
        while parts:
            part = parts.pop(0)
            try:
                self._renew(part)
            except Exception as error:
                if db.is_connection_lost(error, connections[self._database]):
                    failure = error
                    break
                if len(part) > 1:
                    # Whatever it is, it may concern one of them only.
                    parts += [[holding] for holding in part]
                else:
                    failure = error
        if failure is not None:
            self._retry_at = clock.now() + self._outage.failed(failure)
        elif due:
            self._outage.worked()

    def _aside(self, action: Callable[[], None], outage: Outage) -> None:
        """Do what no lease depends on, and which says itself when it is due again."""
        try:
            with self._bounded:
                action()
        except Exception as error:
            outage.failed(error)
        else:
            outage.worked()

    def _look_for_cancels(self) -> None:
        owners = self._leases.held()
        if not owners or clock.now() < self._cancels_at:
            return
        self._cancels_at = clock.now() + _CANCELS_EVERY
        jobs = Job.objects.using(self._database)
        for token, ids in jobs.cancel_requested(list(owners)).items():
            self._audience.cancelled(owners[token], token, ids)

    def _settle(self, release: PendingRelease[Held]) -> None:
        if release.due_at <= clock.now() and not release.is_settled:
            try:
                with self._bounded:
                    release.give_back(self._database)
            except Exception as error:
                release.due_at = clock.now() + self._release_outage.failed(error)
            else:
                self._release_outage.worked()
            # What follows them waits for no other row.
            for killed in release.take_killed():
                self._audience.settled(release.owner, killed)

    def _renew(self, holdings: list[Holding[Held]]) -> None:
        sent_at = clock.now()
        known = [(holding, self._leases.ids(holding)) for holding in holdings]
        tokens = [holding.token for holding in holdings]
        with self._bounded:
            renewals = Job.objects.using(self._database).renew_all(tokens)
        for holding, ids in known:
            self._note(holding, ids, renewals[holding.token], sent_at)

    def _note(
        self,
        holding: Holding[Held],
        known: set[int],
        renewal: Renewal,
        sent_at: float,
    ) -> None:
        """Pass on what became of a token's jobs."""
        renewed, _, busy = renewal
        self._leases.renewed(holding, renewed, busy, sent_at)
        if renewed:
            self._audience.renewed(holding.owner, holding.token, renewed, sent_at)
        gone = self._leases.take_lost(holding, known - renewed - busy)
        for why, ids in self._reasons(gone).items():
            self._audience.lost(holding.owner, holding.token, ids, why)

    def _reasons(self, gone: set[int]) -> dict[str, set[int]]:
        """Return why these jobs are held no more, by what their rows say now."""
        if not gone:
            return {}
        rows = Job.objects.using(self._database).filter(pk__in=gone).order_by()
        found = {pk: (status, who) for pk, status, who in rows.values_list(*_NOW)}
        reasons: dict[str, set[int]] = defaultdict(set)
        for job_id in gone:
            status, worker = found.get(job_id, (None, ""))
            why = f"it is {status}, and {worker} had it last"
            if status is None:
                why = "its row was removed"
            elif status == Status.RUNNING:
                why = f"the row is in the name of {worker}"
            reasons[why].add(job_id)
        return reasons

    def _tell(self, release: PendingRelease[Held]) -> None:
        if release.ids:
            logger.warning(
                "Given back, to be run again: %s %s (%s).",
                "job" if len(release.ids) == 1 else "jobs",
                ", ".join(map(str, sorted(release.ids))),
                release.why,
                extra={"job_ids": sorted(release.ids), "death": release.death},
            )
        if not release.is_settled:
            logger.error(
                "The jobs of a process that is gone could not be given back; another "
                "worker runs them when their leases end."
            )
        self._audience.given_back(release.owner, release.ids)
