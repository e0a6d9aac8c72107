"""Claims whose answers were lost and which the server may still carry out.

Behind a broken line PostgreSQL goes on with a statement, which may wait for a lock, and
commits it. What it takes then, nobody runs.
"""

from uuid import UUID

from django.db import connections

from django_leasequeue import clock, db
from django_leasequeue.models import Job
from django_leasequeue.worker.bounded import Bounded, longest_statement
from django_leasequeue.worker.leases import Leases
from django_leasequeue.worker.outage import Outage

# Seconds between two looks once that time is over and somebody has a row locked.
_BUSY_PAUSE = 1.0


class Doubtful:
    """Their tokens, until the server must have ended the statements.

    Until then whoever renews the leases keeps them as well, should this process die.
    """

    def __init__(self, database: str, bounded: Bounded, leases: Leases) -> None:
        self._database, self._bounded, self._leases = database, bounded, leases
        self._outage = Outage("give back what a claim took", database)
        # When all is known of each, by `clock.now()`.
        self._tokens: dict[UUID, float] = {}

    @property
    def due_in(self) -> float | None:
        """Seconds until the next look must be made; None if there is no token."""
        if not self._tokens:
            return None
        return max(min(self._tokens.values()) - clock.now(), _BUSY_PAUSE)

    def add(self, token: UUID, lost_at: float) -> None:
        """Keep this token of a claim that was lost at `lost_at`, by `clock.now()`."""
        self._tokens[token] = lost_at + longest_statement()

    def give_back(self) -> None:
        """Give back, uncounted, what they have taken by now. Raises nothing."""
        for token, until in list(self._tokens.items()):
            over = until <= clock.now()
            try:
                with self._bounded:
                    done = self._release(token, over)
            except Exception as error:
                lost = db.is_connection_lost(error, connections[self._database])
                self._outage.failed(error)
                # A row that can't be given back has its lease end.
                done = over and not lost
            else:
                self._outage.worked()
            if done:
                del self._tokens[token]
                self._leases.claimed(token, [])

    def _release(self, token: UUID, over: bool) -> bool:
        """Give back what this one has; return whether it will have no more."""
        jobs = Job.objects.using(self._database)
        if not jobs.release(token) and not over:
            return False
        # What it took it took at once. A row that is locked now is passed over.
        return not jobs.running().filter(processing_token=token).exists()
