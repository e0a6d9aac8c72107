"""How the schedules are: which is next, paused, overdue or broken."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from django_leasequeue import transitions
from django_leasequeue.models import Schedule

# Schedules that are looked at, by name.
MOST_SCHEDULES = 1000
# Seconds after which a tick that nobody has dealt with is called overdue.
LATE = 60.0


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """One schedule. `state`: see Schedule.state; `late`: seconds for which a tick is overdue.

    `next_tick`: when a worker is to look at it, which is its next firing unless it was
    changed a moment ago; None if none is to come.
    """

    pk: int
    name: str
    task: str
    kind: str
    expression: str
    tz: str
    state: str
    next_tick: datetime | None
    last_tick: datetime | None
    last_job: int | None
    paused_by: str
    problem: str
    late: float

    @property
    def is_bad(self) -> bool:
        """Whether it does not do what it should."""
        return self.state == "broken" or self.late > LATE

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        ticks = {
            name: at and at.isoformat()
            for name, at in (
                ("next_tick", self.next_tick),
                ("last_tick", self.last_tick),
            )
        }
        values = {**asdict(self), **ticks}
        del values["pk"]
        return values


def schedules(using: str) -> list[ScheduleFigures]:
    """Return the schedules: bad ones, then those that fire next, then those that don't.

    One statement.
    """
    rows: QuerySet[Schedule] = QuerySet(Schedule, using=using).order_by("name")
    narrow = rows.defer("args", "kwargs", "options", "former")
    found = [
        _figures(row) for row in transitions.schedule.read(narrow)[:MOST_SCHEDULES]
    ]
    return sorted(found, key=_place)


def _figures(row: Any) -> ScheduleFigures:
    tick = row.next_tick
    late = 0.0 if tick is None else max(0.0, (row.read_at - tick).total_seconds())
    return ScheduleFigures(
        pk=row.pk,
        name=row.name,
        task=row.task,
        kind=row.kind,
        expression=row.expression,
        tz=row.tz,
        state=row.state,
        next_tick=tick,
        last_tick=row.last_tick,
        last_job=row.last_job,
        paused_by=row.paused_by if row.paused_at is not None else "",
        problem=row.problem,
        late=late,
    )


def _place(one: ScheduleFigures) -> Any:
    tick = one.next_tick
    return not one.is_bad, tick is None, tick and tick.timestamp(), one.name
