"""The tallier: counts the minutes that are over, in one worker at a time.

It goes along in the pruner's thread, with a duty of its own: while a prune takes long in one
worker, another counts.
"""

from django.db.models import QuerySet

from django_leasequeue import transitions
from django_leasequeue.models import Job, Tally
from django_leasequeue.worker.duties import Turn
from django_leasequeue.worker.outage import Outage

# Seconds between two times, and after which the duty of a worker that is gone is another's.
_EVERY, _LEASE = 30.0, 60.0


class Tallier:
    """Counts when it is told to look, unless another worker has just done so."""

    def __init__(self, database: str, worker: str) -> None:
        self._jobs: QuerySet[Job] = QuerySet(Job, using=database)
        self._tallies: QuerySet[Tally] = QuerySet(Tally, using=database)
        self._turn = Turn("tally", worker, database, _LEASE)
        self._outage = Outage("count finished jobs", database)

    def look(self) -> None:
        """Count what is to be counted. Nothing that happens here stops the pruner."""
        try:
            if self._turn.take():
                try:
                    transitions.tally.tally(self._jobs, self._tallies)
                finally:
                    self._turn.give_back(_EVERY)
        except Exception as error:
            self._outage.failed(error)
        else:
            self._outage.worked()
