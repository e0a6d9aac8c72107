"""Claims: announced before they are sent, and asked again if an answer is lost."""

from functools import partial
from typing import Protocol
from uuid import UUID

from django.db import connections

from django_leasequeue import clock, db
from django_leasequeue.claimed import new_token
from django_leasequeue.models import Job
from django_leasequeue.transitions.claim import Claim
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.doubtful import Doubtful
from django_leasequeue.worker.forgotten import Forgotten
from django_leasequeue.worker.lease_table import shortest_lease
from django_leasequeue.worker.leases import Leases
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.outage import Outage
from django_leasequeue.worker.wakeup import Wakeup

# Seconds between two looks for leases that are past: nobody waits for those, and the look
# is one more statement, of which an idle worker is to send less than two a second. More
# often where leases are short: that part of the shortest.
_EXPIRED_EVERY, _EXPIRED_AT_LEAST = 5.0, 1.0
_PART_OF_A_LEASE = 60
# Seconds until the next try if whoever renews the leases doesn't listen.
_UNHEARD_PAUSE = 1.0


class Claims(Protocol):
    """Where the loop gets its jobs."""

    def claim(self, limit: int, alone: bool = False) -> Claim | None:
        """Claim up to `limit` jobs; None if that is not possible now. See Claimer."""

    def close(self) -> None:
        """Tell that no claim will follow."""


class Claimer:
    """Claims jobs for one process, as `worker`."""

    def __init__(
        self, options: WorkerOptions, worker: str, leases: Leases, wakeup: Wakeup
    ) -> None:
        self._options, self._worker = options, worker
        self._leases, self._wakeup = leases, wakeup
        self._selection = options.selection
        self._jobs = Job.objects.using(options.database)
        self._outage = Outage("claim jobs", options.database)
        self._bounded = Bounded(options.database)
        self._doubtful = Doubtful(options.database, self._bounded, leases)
        self._forgotten = Forgotten()
        part = shortest_lease(self._selection) / _PART_OF_A_LEASE
        self._expired_every = min(max(part, _EXPIRED_AT_LEAST), _EXPIRED_EVERY)
        self._expired_at = clock.now()
        # Announced, and not known to have taken a job.
        self._token: UUID | None = None
        # When a claim with it was first sent whose answer was lost; None for a fresh one.
        self._since: float | None = None
        # When it was lost, if the server may have gone on with it.
        self._lost_at: float | None = None

    def claim(self, limit: int, alone: bool = False) -> Claim | None:
        """Claim up to `limit` jobs; None, after a pause, if that is not possible now.

        `alone`: whether to take those that run alone, or all others.
        """
        self._doubtful.give_back()
        token = self._announced()
        if token is None:
            self._wakeup.sleep(_UNHEARD_PAUSE)
            return None
        now = clock.now()
        expired = now >= self._expired_at
        jobs = self._jobs
        try:
            with self._bounded:
                look = partial(
                    jobs.claim,
                    self._selection,
                    limit,
                    token,
                    self._worker,
                    since=self._since,
                    alone=alone,
                )
                self._forgotten.look(jobs)
                claim = look(expired=expired)
                if self._options.drain and not (claim.jobs or expired):
                    # It ends as soon as a look finds nothing, so that one is a whole one.
                    expired = True
                    self._forgotten.look(jobs, now=True)
                    claim = look(expired=expired)
        except Exception as error:
            # Whatever it is, a worker that ended for it would meet it again. The same token
            # is used until there is an answer: what it may have taken nobody else runs.
            if self._since is None:
                connection = connections[self._options.database]
                lost = db.is_connection_lost(error, connection)
                self._since, self._lost_at = now, clock.now() if lost else None
            self._wakeup.sleep(self._outage.failed(error))
            return None
        if self._since is None or claim.jobs:
            # A look for what a claim took says nothing of the next claim.
            self._outage.worked()
        if self._since is not None and not claim.jobs:
            self._token = None
            if self._lost_at is None:
                self._leases.claimed(token, [])
            else:
                self._doubtful.add(token, self._lost_at)
        self._since = self._lost_at = None
        if expired:
            self._expired_at = now + self._expired_every
        if claim.keyed:
            self._forgotten.saw_keys()
        if claim.jobs:
            self._token = None
            self._leases.claimed(token, claim.jobs)
        look_in = self._doubtful.due_in
        if look_in is not None:
            due_in = look_in if claim.due_in is None else min(claim.due_in, look_in)
            claim = claim._replace(due_in=due_in)
        return claim

    def close(self) -> None:
        """Tell that no claim will follow, and give back what the last ones may have taken.

        Of a token that is still doubtful nothing is told: whoever renews the leases gives
        back what it takes later.
        """
        token, lost_at = self._token, self._lost_at
        if token is not None and self._since is not None:
            self._doubtful.add(token, clock.now() if lost_at is None else lost_at)
        elif token is not None:
            self._leases.claimed(token, [])
        self._doubtful.give_back()

    def _announced(self) -> UUID | None:
        """Return a token that took no jobs yet, if whoever renews leases has heard of it."""
        token = self._token or new_token()
        # An idle worker need not tell of each look; but a drain goes by these messages.
        if token == self._token and not self._options.drain:
            return token
        if not self._leases.announce(token):
            return None
        self._token = token
        return token
