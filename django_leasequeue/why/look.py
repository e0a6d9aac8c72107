"""What is read to answer: the job's row, and who could run it now. Nothing is locked."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from django.db.models import QuerySet

from django_leasequeue.fields import NOW
from django_leasequeue.selection import takes

# Live workers that are looked at; where there are more, nothing is said of what they lack.
MOST_WORKERS = 1000

_COLUMNS = (
    "id",
    "status",
    "queue",
    "task",
    "priority",
    "run_at",
    "attempts",
    "max_attempts",
    "claims",
    "recoveries",
    "suspect",
    "blocked",
    "concurrency_key",
    "concurrency_limit",
    "errors",
    "worker",
    "processing_until",
    "cancel_requested_at",
    "last_attempted_at",
    "finished_at",
)


class Taker(NamedTuple):
    """A live worker that takes jobs of the queue."""

    name: str
    tasks: Any


@dataclass
class Look:
    """A job as it was read, and its surroundings, each read when first asked for."""

    # By column, with "now", the database's time.
    row: dict[str, Any]
    rows: QuerySet[Any]

    @cached_property
    def live(self) -> list[tuple[str, Any, Any, Any]]:
        """Name, queues, exclusions and tasks of each live worker, up to one more than is read."""
        live = self._model("Worker").live().order_by()
        columns = live.values_list("name", "queues", "exclude", "tasks")
        return list(columns[: MOST_WORKERS + 1])

    @property
    def all_live(self) -> bool:
        """Whether `live` holds them all."""
        return len(self.live) <= MOST_WORKERS

    @cached_property
    def takers(self) -> list[Taker]:
        """The live workers that take the job's queue."""
        return [
            Taker(name, tasks)
            for name, queues, exclude, tasks in self.live
            if takes(queues, exclude, self.row["queue"])
        ]

    def pause(self) -> dict[str, Any] | None:
        """When, by whom and why the job's queue was paused; None if it is not."""
        paused = self._model("Queue").paused().filter(pk=self.row["queue"]).order_by()
        found = list(paused.values("paused_at", "paused_by", "reason")[:1])
        return found[0] if found else None

    def _model(self, name: str) -> Any:
        # By name, since the models import this.
        model = self.rows.model._meta.apps.get_model("leasequeue", name)
        return model.objects.using(self.rows.db)


def look(rows: QuerySet[Any], pk: Any) -> Look | None:
    """Read the job's row, without its wide columns; None if it is not there."""
    found = list(
        rows.filter(pk=pk).annotate(now=NOW).order_by().values(*_COLUMNS, "now")
    )
    return Look(found[0], rows) if found else None


def has(tasks: Any, names: Iterable[str]) -> bool:
    """Whether a worker's row with these tasks has one of the names; unread ones do."""
    return not isinstance(tasks, list) or not set(names).isdisjoint(map(str, tasks))
