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
        # The token of a claim of which it is unknown whether it took anything.
        self._doubtful: UUID | None = None

    def claim(self, limit: int) -> Claim | None:
        """Claim up to `limit` jobs; None, after a pause, if that is not possible now."""
        token = uuid4()
        if not self._leases.announce(token):
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
        self._leases.claimed(token, claim.jobs)
        return claim

    def _claim(self, limit: int, token: UUID, expired: bool) -> Claim:
        jobs = Job.objects.using(self._options.database)
        if self._doubtful is not None:
            # Whatever it took nobody runs, and nobody else may take.
            jobs.release(self._doubtful)
            self._leases.claimed(self._doubtful, [])
        self._doubtful = token
        claim = jobs.claim(self._selection, limit, token, self._worker, expired=expired)
        self._doubtful = None
        return claim
