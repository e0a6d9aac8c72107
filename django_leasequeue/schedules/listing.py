"""What there is to see of each schedule, in one line."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from django.db.models import QuerySet

from django_leasequeue import transitions
from django_leasequeue.models import Schedule


class Line(NamedTuple):
    """One schedule. `state`: see Schedule.state; times in UTC; `last_job`: an id.

    `next_firing`: None while a problem keeps it from making jobs.
    """

    name: str
    task: str
    # As in "*/10 * * * *" or "every 600 s".
    expression: str
    tz: str
    state: str
    next_firing: datetime | None
    last_tick: datetime | None
    last_job: int | None
    # Why the last tick that made no job did not, and which that was.
    skipped_tick: datetime | None
    skipped_why: str
    problem: str


def lines(using: str) -> Iterator[Line]:
    """Yield a line of each schedule, by name."""
    rows: QuerySet[Schedule] = QuerySet(Schedule, using=using)
    for row in transitions.schedule.read(rows.order_by("name")):
        coming = transitions.schedule.next_tick(row, row.read_at)
        yield Line(
            name=row.name,
            task=row.task,
            expression=row.expression_text,
            tz=row.tz,
            state=row.state,
            next_firing=None if row.problem else coming,
            last_tick=row.last_tick,
            last_job=row.last_job,
            skipped_tick=row.skipped_tick,
            skipped_why=row.skipped_why,
            problem=row.problem,
        )
