"""Which workers there are: seen lately or not, and what they take."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_leasequeue.fields import NOW
from django_leasequeue.models import Worker
from django_leasequeue.models.worker import LIVE_FOR
from django_leasequeue.selection import takes

# Worker processes that are looked at, the newest.
MOST_WORKERS = 1000


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """One worker process. `unseen`: seconds since it was last seen."""

    pk: int
    name: str
    host: str
    pid: int
    queues: Any
    exclude: Any
    versions: Any
    started_at: datetime
    last_seen_at: datetime
    unseen: float

    @property
    def is_live(self) -> bool:
        """Whether it was seen in the last minute."""
        return self.unseen < LIVE_FOR

    def takes(self, queue: str) -> bool:
        """Whether it takes jobs of this queue."""
        return takes(self.queues, self.exclude, queue)

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "name": self.name,
            "host": self.host,
            "pid": self.pid,
            "queues": self.queues,
            "exclude": self.exclude,
            "versions": self.versions,
            "started_at": self.started_at.isoformat(),
            "last_seen_at": self.last_seen_at.isoformat(),
            "unseen": self.unseen,
            "live": self.is_live,
        }


def workers(using: str) -> list[WorkerFigures]:
    """Return the workers that have a row, by name: live ones, and those silent for a day."""
    rows = Worker.objects.using(using).annotate(now=NOW).order_by("-last_seen_at")
    found = rows.values_list(
        "pk",
        "name",
        "host",
        "pid",
        "queues",
        "exclude",
        "versions",
        "started_at",
        "last_seen_at",
        "now",
    )
    made = [_figures(*row) for row in found[:MOST_WORKERS]]
    return sorted(made, key=lambda worker: worker.name)


def _figures(*row: Any) -> WorkerFigures:
    values: list[Any] = list(row)
    values[-1] = (values[-1] - values[-2]).total_seconds()
    return WorkerFigures(*values)
