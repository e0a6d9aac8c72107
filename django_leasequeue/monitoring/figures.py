"""All figures of the queue at one moment."""

from dataclasses import dataclass
from typing import Any

from django_leasequeue import db
from django_leasequeue.monitoring.failures import Failures, failures
from django_leasequeue.monitoring.queues import QueueFigures, queues
from django_leasequeue.monitoring.workers import WorkerFigures, workers


@dataclass(frozen=True, slots=True)
class Figures:
    """What there is now; see the parts. `window`: seconds of `failures`.

    `more_queues`: how many there are that `queues` leaves out.

    `takes_writes`: False of a database that is read-only, where no job can be claimed.
    """

    database: str
    takes_writes: bool
    queues: list[QueueFigures]
    more_queues: int
    workers: list[WorkerFigures]
    failures: list[Failures]
    window: float

    @property
    def failed(self) -> int:
        """How many jobs have failed in the window."""
        return sum(one.count for one in self.failures)

    def as_dict(self) -> dict[str, Any]:
        """Return them as values of JSON."""
        return {
            "database": self.database,
            "takes_writes": self.takes_writes,
            "queues": [one.as_dict() for one in self.queues],
            "more_queues": self.more_queues,
            "workers": [one.as_dict() for one in self.workers],
            "failures": [one.as_dict() for one in self.failures],
            "window": self.window,
        }


def figures(using: str, window: float = 3600.0) -> Figures:
    """Read the figures of a database: some eleven statements, whatever its tables hold."""
    found = workers(using)
    live = [worker for worker in found if worker.is_live]

    def takers(queue: str) -> int:
        return sum(worker.takes(queue) for worker in live)

    of_queues, more = queues(using, takers)
    return Figures(
        database=using,
        takes_writes=db.takes_writes(using),
        queues=of_queues,
        more_queues=more,
        workers=found,
        failures=failures(using, window),
        window=window,
    )
