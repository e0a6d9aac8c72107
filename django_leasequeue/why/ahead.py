"""How many jobs of its queue are claimed before a job, counted up to a bound."""

from django.db.models import Q

from django_leasequeue import db
from django_leasequeue.states import Status
from django_leasequeue.why.look import Look

# Where there are more, only that is told.
MOST = 1000


def count_ahead(seen: Look) -> int:
    """Return how many due jobs of its queue come before it, at most MOST + 1.

    Three statements: its queue's lanes (see db.lanes), their due jobs, and those of its own.
    """
    row = seen.row
    table = seen.rows.model._meta.db_table
    above = [
        lane.priority
        for lane in db.lanes(table, seen.rows.db, [row["queue"]])
        if lane.suspect == bool(row["suspect"])
        and lane.due_in <= 0
        and lane.priority > row["priority"]
    ]
    count = 0
    if above:
        count = _bounded(seen, Q(priority__in=above, run_at__lte=db.DatabaseNow()))
    if count > MOST:
        return count
    earlier = Q(run_at__lt=row["run_at"]) | Q(run_at=row["run_at"], pk__lt=row["id"])
    mine = Q(priority=row["priority"], run_at__lte=row["run_at"])
    return min(count + _bounded(seen, mine & earlier), MOST + 1)


def _bounded(seen: Look, condition: Q) -> int:
    row, rows = seen.row, seen.rows
    waiting = rows.filter(
        status=Status.PENDING, blocked=0, suspect=row["suspect"], queue=row["queue"]
    )
    with db.forced(rows, "leasequeue_claim"):
        found = waiting.filter(condition).order_by().values_list("pk", flat=True)
        return len(found[: MOST + 1])
