"""Pause: no job of a queue starts; and resume. Claims see it by db.lanes.

Two who do the same at once get two answers, of which one says that it changed something.
"""

from functools import partial
from typing import Any

from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.dedup import check_queue
from django_leasequeue.payloads import clean_text

# Seconds for which a write runs again through passing trouble.
RERUN_FOR = 10.0


def pause(rows: QuerySet[Any], name: str, by: str, reason: str) -> bool:
    """Pause the queue; return whether it was not before. Raises ValueError for a wrong name."""
    name = checked(name)
    paused = {
        "paused_at": db.DatabaseNow(),
        "paused_by": _fit(rows, "paused_by", _given("by", by)),
        "reason": _fit(rows, "reason", _given("reason", reason)),
    }
    running = rows.filter(name=name, paused_at__isnull=True)
    if _written(running, paused):
        return True
    # Paused already, or never before. If somebody else makes the row, so much the better:
    # the update finds it and decides.
    make = partial(rows.bulk_create, [rows.model(name=name)], ignore_conflicts=True)
    db.rerun(make, using=rows.db, seconds=RERUN_FOR)
    return _written(running, paused)


def resume(rows: QuerySet[Any], name: str, by: str, jobs: str) -> bool:
    """End the pause, and wake workers; return whether there was one. `jobs`: their table."""
    name = checked(name)
    resumed = {
        "paused_at": None,
        "resumed_at": db.DatabaseNow(),
        "resumed_by": _fit(rows, "resumed_by", _given("by", by)),
    }
    changed = _written(rows.filter(name=name, paused_at__isnull=False), resumed)
    if changed:
        db.tell_workers(rows.db, jobs)
    return changed


def _written(rows: QuerySet[Any], values: dict[str, Any]) -> bool:
    write = partial(rows.update, **values)
    return db.rerun(write, using=rows.db, seconds=RERUN_FOR) == 1


def checked(name: str) -> str:
    """Return what can be the name of one queue. Raises TypeError or ValueError."""
    return check_queue(name)


def _given(argument: str, text: Any) -> str:
    if isinstance(text, str):
        return text
    such = ", such as user.get_username()" if argument == "by" else ""
    raise TypeError(f"{argument} must be a str{such}, not {type(text).__name__}.")


def _fit(rows: QuerySet[Any], column: str, text: str) -> str:
    return clean_text(text, rows.model._meta.get_field(column).max_length)
