"""How each queue is: what is ready, since when, what waits and runs."""

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from django_leasequeue import db
from django_leasequeue.models import Job, Queue
from django_leasequeue.models.group_wait import GroupWait
from django_leasequeue.states import AWAITS_GROUP, AWAITS_SLOT, Status

# Jobs that are counted of each kind and queue; where there are more, that is told.
MOST_COUNTED = 10_000
# Queues with waiting jobs that are counted.
MOST_QUEUES = 100


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One queue now. Counts end at MOST_COUNTED + 1, which stands for more.

    `ready`: due, and held up by nothing but workers that are busy or absent; None if it is
    paused. `waiting`: all that are pending but for those that are `blocked`, which wait for a
    slot of their concurrency key or for a group. `oldest_ready`: seconds for which the oldest
    ready job has been due; None if none is. `workers`: live ones that take the queue.
    `paused_at`, `paused_by`, `reason`: of its pause; None and "" if it is not paused.
    """

    name: str
    paused: bool
    ready: int | None
    waiting: int
    blocked: int
    running: int
    oldest_ready: float | None
    workers: int
    paused_at: datetime | None = None
    paused_by: str = ""
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        at = self.paused_at
        return {**asdict(self), "paused_at": at and at.isoformat()}


def queues(using: str, takes: Any) -> tuple[list[QueueFigures], int]:
    """Return the queues that have pending or running jobs, or are paused, by name.

    And how many more there are. `takes(name)`: how many live workers take a queue. Seven
    statements.
    """
    rows = Job.objects.using(using).order_by()
    lanes = db.lanes(Job._meta.db_table, using)
    paused = {row.name: row for row in Queue.objects.using(using).paused().order_by()}
    running, blocked = _running(rows), _blocked(rows)
    names = {lane.queue for lane in lanes}.union(paused, running, blocked)
    chosen = sorted(names)[:MOST_QUEUES]
    due = [lane for lane in lanes if lane.due_in <= 0 and lane.queue in chosen]
    oldest: dict[str, float] = {}
    for lane in due:
        oldest[lane.queue] = max(oldest.get(lane.queue, 0.0), -lane.due_in)
    ready, waiting = _ready(rows, due), _waiting(rows, chosen)
    found = [
        QueueFigures(
            name=name,
            paused=name in paused,
            ready=None if name in paused else min(ready[name], MOST_COUNTED + 1),
            waiting=waiting[name],
            blocked=blocked[name],
            running=running[name],
            oldest_ready=oldest.get(name),
            workers=takes(name),
            **_pause_of(paused.get(name)),
        )
        for name in chosen
    ]
    return found, len(names) - len(found)


def _pause_of(row: Queue | None) -> dict[str, Any]:
    if row is None:
        return {}
    names = ("paused_at", "paused_by", "reason")
    return {name: getattr(row, name) for name in names}


def _running(rows: QuerySet[Any]) -> Counter[str]:
    running = rows.filter(status=Status.RUNNING, processing_until__isnull=False)
    running = running.order_by("processing_until", "id")
    with db.forced(rows, "leasequeue_lease"):
        return Counter(running.values_list("queue", flat=True)[: MOST_COUNTED + 1])


def _blocked(rows: QuerySet[Any]) -> Counter[str]:
    order = ("concurrency_key", "queue", "-priority", "run_at", "id")
    # The key's bound lets SQLite see a range in the index.
    for_slots = rows.filter(blocked=AWAITS_SLOT, concurrency_key__gt="")
    for_slots = for_slots.order_by(*order)
    with db.forced(rows, "leasequeue_awaits_slot"):
        found = Counter(for_slots.values_list("queue", flat=True)[: MOST_COUNTED + 1])
    # No join: SQLite would go through the jobs and look for the wait of each.
    waiting = rows.filter(pk=OuterRef("job_id"), blocked=AWAITS_GROUP)
    waits: QuerySet[GroupWait] = QuerySet(GroupWait, using=rows.db)
    for_groups = waits.annotate(queue=Subquery(waiting.values("queue")))
    queues = for_groups.order_by("job_id").values_list("queue", flat=True)
    found.update(name for name in queues[: MOST_COUNTED + 1] if name is not None)
    return Counter({name: min(n, MOST_COUNTED + 1) for name, n in found.items()})


def _ready(rows: QuerySet[Any], lanes: list[db.Lane]) -> dict[str, int]:
    wheres = [
        {
            "suspect": int(lane.suspect),
            "queue": lane.queue,
            "priority": lane.priority,
            "run_at__lte": db.DatabaseNow(),
        }
        for lane in lanes
    ]
    counts = db.bounded_counts(rows, "leasequeue_claim", wheres, MOST_COUNTED + 1)
    by_queue: dict[str, int] = defaultdict(int)
    for lane, count in zip(lanes, counts, strict=True):
        by_queue[lane.queue] += count
    return by_queue


def _waiting(rows: QuerySet[Any], names: list[str]) -> dict[str, int]:
    wheres = [
        {"suspect": suspect, "queue": name} for name in names for suspect in (0, 1)
    ]
    counts = db.bounded_counts(rows, "leasequeue_claim", wheres, MOST_COUNTED + 1)
    return {
        name: min(counts[2 * number] + counts[2 * number + 1], MOST_COUNTED + 1)
        for number, name in enumerate(names)
    }
