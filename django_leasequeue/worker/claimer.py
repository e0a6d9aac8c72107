"""Claims: announced before they are sent, and taken back if it is unknown what they took."""

from uuid import UUID, uuid4

from django.db import Error

from django_leasequeue import clock
from django_leasequeue.models import Job
from django_leasequeue.transitions.claim import Claim
from django_leasequeue.worker.leases import Leases
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.patience import Patience
from django_leasequeue.worker.wakeup import Wakeup

# Seconds between two looks for leases that are past: nobody waits for those, and the look
# is one more statement.
_EXPIRED_EVERY = 1.0
# Seconds until the next try if whoever renews the leases doesn't listen.
_UNHEARD_PAUSE = 1.0


class Claimer:
    """Claims jobs for one process, as `worker`."""

    def __init__(
        self, options: WorkerOptions, worker: str, leases: Leases, wakeup: Wakeup
    ) -> None:
        self._options, self._worker = options, worker
        self._leases, self._wakeup = leases, wakeup
        self._selection = options.selection
        self._patience = Patience("claim jobs", options.database)
        self._expired_at = clock.now()
        # Announced, and no job was ever claimed by it.
        self._fresh: UUID | None = None
        # Of a claim of which it is unknown whether it took anything.
        self._doubtful: UUID | None = None

    def claim(self, limit: int) -> Claim | None:
        """Claim up to `limit` jobs; None, after a pause, if that is not possible now."""
        token = self._announced()
        if token is None:
            self._wakeup.sleep(_UNHEARD_PAUSE)
            return None
        now = clock.now()
        # A drain must not end while a job waits for the end of a dead worker's lease.
        expired = self._options.drain or now >= self._expired_at
        try:
            claim = self._claim(limit, token, expired)
        except Error as error:
            self._wakeup.sleep(self._patience.failed(error))
            return None
        self._patience.worked()
        if expired:
            self._expired_at = now + _EXPIRED_EVERY
        if claim.jobs:
            self._leases.claimed(token, claim.jobs)
        else:
            self._fresh = token
        return claim

    def close(self) -> None:
        """Tell that no claim will follow."""
        if self._fresh is not None:
            self._leases.claimed(self._fresh, [])

    def _announced(self) -> UUID | None:
        """Return a token that took no jobs yet, if whoever renews leases has heard of it."""
        token = self._fresh or uuid4()
        # An idle worker need not tell of each look; but a drain goes by these messages.
        if token == self._fresh and not self._options.drain:
            return token
        return token if self._leases.announce(token) else None

    def _claim(self, limit: int, token: UUID, expired: bool) -> Claim:
        jobs = Job.objects.using(self._options.database)
        if self._doubtful is not None:
            # Whatever it took nobody runs, and nobody else may take.
            jobs.release(self._doubtful)
            self._leases.claimed(self._doubtful, [])
        self._fresh, self._doubtful = None, token
        claim = jobs.claim(self._selection, limit, token, self._worker, expired=expired)
        self._doubtful = None
        return claim
