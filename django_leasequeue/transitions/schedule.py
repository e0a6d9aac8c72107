"""What is written to a schedule's row: a tick dealt with, a pause, a problem."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Case, F, Q, QuerySet, When

from django_leasequeue import db
from django_leasequeue.fields import NOW, UTCDateTimeField
from django_leasequeue.payloads import clean_text

# Seconds for which a write runs again through passing trouble.
RERUN_FOR = 10.0


def read(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return the rows, each with the database's time at which it was read, `read_at`."""
    return rows.annotate(read_at=NOW)


def next_tick(schedule: Any, now: datetime) -> datetime | None:
    """Return the next tick that counts, whether it is past or to come; None without one.

    Of a row that is bad it is now, so that a worker looks at it and tells.
    """
    is_over = schedule.limit is not None and schedule.fired >= schedule.limit
    if not schedule.enabled or schedule.paused_at is not None or is_over:
        return None
    try:
        return next(schedule.ticks.after(counted_from(schedule)), None)
    except ValueError:
        return now


def counted_from(schedule: Any) -> datetime:
    """Return the instant after which a tick has not been dealt with."""
    return max(schedule.since, schedule.last_tick or schedule.since)


def advance(
    rows: QuerySet[Any], pk: int, tick: datetime, columns: dict[str, Any]
) -> bool:
    """Note that all ticks up to this one are dealt with; False if another has done so."""
    earlier = Q(last_tick__isnull=True) | Q(last_tick__lt=tick)
    return bool(rows.filter(earlier, pk=pk).update(last_tick=tick, **columns))


def look_later(rows: QuerySet[Any], schedule: Any, at: datetime | None) -> None:
    """Note when a schedule is due that was looked at and is not."""
    rows.filter(pk=schedule.pk, next_tick=schedule.next_tick).update(next_tick=at)


def pause(rows: QuerySet[Any], ids: list[int], by: str) -> int:
    """Let these make no jobs; return how many were not paused before."""
    running = rows.filter(pk__in=ids, paused_at__isnull=True)
    return _written(
        rows,
        partial(
            running.update,
            paused_at=db.DatabaseNow(),
            paused_by=_fit(rows, "paused_by", by),
            next_tick=None,
        ),
    )


def resume(rows: QuerySet[Any], ids: list[int]) -> int:
    """Let these go on from now; return how many were paused."""
    paused = rows.filter(pk__in=ids, paused_at__isnull=False)
    return _written(rows, partial(paused.update, paused_at=None, **again()))


def anew() -> dict[str, Any]:
    """Return the columns by which a new one counts from now; a worker works out its tick."""
    return {"since": db.DatabaseNow(), "next_tick": db.DatabaseNow()}


def again() -> dict[str, Any]:
    """Return the columns by which one that there is counts from now.

    Also if its last tick is still to come, since the clock was ahead.
    """
    now = db.DatabaseNow()
    last_tick = Case(
        When(last_tick__gt=now, then=now),
        default=F("last_tick"),
        output_field=UTCDateTimeField(),
    )
    return {**anew(), "last_tick": last_tick}


def note_problem(rows: QuerySet[Any], pk: int, problem: str) -> bool:
    """Store what keeps a schedule from making jobs; False if that is known already."""
    text = _fit(rows, "problem", problem)
    another = rows.filter(pk=pk).exclude(problem=text)
    write = partial(another.update, problem=text, problem_at=db.DatabaseNow())
    return bool(_written(rows, write))


def _written(rows: QuerySet[Any], write: Callable[[], Any]) -> int:
    return db.rerun(write, using=rows.db, seconds=RERUN_FOR)


def _fit(rows: QuerySet[Any], column: str, text: str) -> str:
    return clean_text(text, rows.model._meta.get_field(column).max_length)
