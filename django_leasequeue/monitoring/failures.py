"""What has failed for good lately, by queue and task."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_leasequeue import db
from django_leasequeue.fields import NOW
from django_leasequeue.models import Job
from django_leasequeue.states import Status

# Failures that are counted of each queue and task, and such pairs that are looked at.
MOST_COUNTED = 1000
MOST_KINDS = 1000
# Pairs of which the newest failure is told.
MOST_LAST = 20


@dataclass(frozen=True, slots=True)
class Failures:
    """Jobs of one task in one queue that failed for good; at most MOST_COUNTED are counted."""

    queue: str
    task: str
    count: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {"queue": self.queue, "task": self.task, "count": self.count}


def failures(using: str, window: float) -> list[Failures]:
    """Return what failed in the last `window` seconds, most failures first.

    By the rows that are there: jobs that RETENTION removes at once are not counted. Two
    statements, and one more for every 200 pairs of queue and task.
    """
    rows = Job.objects.using(using).order_by()
    kinds = db.finished_kinds(Job._meta.db_table, Status.FAILED, MOST_KINDS, using)
    wheres = [
        {
            "status": Status.FAILED,
            "queue": queue,
            "task": task,
            "finished_at__gt": db.DatabaseNow(-window),
        }
        for queue, task in kinds
    ]
    counts = db.bounded_counts(rows, "leasequeue_finished", wheres, MOST_COUNTED)
    found = [
        Failures(*kind, count)
        for kind, count in zip(kinds, counts, strict=True)
        if count
    ]
    return sorted(found, key=lambda one: (-one.count, one.queue, one.task))


@dataclass(frozen=True, slots=True)
class LastFailure:
    """The newest job of a queue and task that failed; `ago`: seconds since then.

    `exception_class`: "" if nothing is known of the error. Its message is left out: it may
    quote what only those should read who may see arguments.
    """

    queue: str
    task: str
    job: int
    at: datetime
    ago: float
    exception_class: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "queue": self.queue,
            "task": self.task,
            "job": self.job,
            "at": self.at.isoformat(),
            "ago": self.ago,
            "exception_class": self.exception_class,
        }


def last_failures(using: str, kinds: list[Failures]) -> list[LastFailure]:
    """Return the newest failure of each of the first MOST_LAST of these, the newest first.

    Two statements.
    """
    rows = Job.objects.using(using).order_by()
    wheres = [
        {"status": Status.FAILED, "queue": one.queue, "task": one.task}
        for one in kinds[:MOST_LAST]
    ]
    ids = db.newest(rows, "leasequeue_finished", wheres, "finished_at")
    failed = rows.filter(pk__in=ids, status=Status.FAILED).annotate(now=NOW)
    read = failed.values_list("queue", "task", "pk", "finished_at", "now", "errors")
    found = [_last(*row) for row in read]
    return sorted(found, key=lambda one: (one.ago, -one.job))


def _last(
    queue: str, task: str, pk: int, at: Any, now: datetime, errors: Any
) -> LastFailure:
    ago = max(0.0, (now - at).total_seconds())
    return LastFailure(queue, task, pk, at, ago, _class_of(errors))


def _class_of(errors: Any) -> str:
    last = errors[-1] if isinstance(errors, list) and errors else None
    name = last.get("exception_class") if isinstance(last, dict) else None
    return name if isinstance(name, str) else ""
