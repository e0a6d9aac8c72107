"""Tally: how many jobs ended in each minute is counted once, when it is over.

A chart that counted them itself would read a day's jobs for each look: a million take
PostgreSQL half a second, and MySQL four. One minute costs what has ended in it.
"""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.states import FINAL, Status

MINUTE = timedelta(minutes=1)
# How long a write of one of a minute's jobs may be under way when it is over.
_GRACE = timedelta(seconds=10)
# Minutes that are counted at once, the newest; each for so many pairs of queue and task, at
# so many looks into the index in all.
_MOST_MINUTES, _MOST_KINDS, _MOST_LOOKS = 60, 1000, 1000
# More of one queue and task in one minute are not counted.
_MOST_COUNTED = 10_000_000
# How long a minute's row is kept: a day, and what a chart may begin before it.
KEPT = timedelta(hours=25)


def tally(jobs: QuerySet[Any], tallies: QuerySet[Any]) -> int:
    """Count the minutes that are over and not counted yet; return how many these were.

    Of the last hour: before that nobody was there to count, so that hardly anything ended.
    Several may do it at once: a minute is counted alike by all, and the first one's row stays.
    """
    now = db.database_now(jobs.db)
    minutes = _to_count(tallies, now)
    if not minutes:
        return 0
    kinds = [
        (status, queue, task)
        for status in sorted(FINAL)
        for queue, task in db.finished_kinds(
            jobs.model._meta.db_table, status, _MOST_KINDS, jobs.db
        )
    ]
    minutes = minutes[-max(1, _MOST_LOOKS // max(1, len(kinds))) :]
    counts = _counts(jobs, kinds, minutes)
    tallies.bulk_create(
        [
            tallies.model(
                minute=minute,
                succeeded=counts[minute][Status.SUCCEEDED],
                failed=counts[minute][Status.FAILED],
                cancelled=counts[minute][Status.CANCELLED],
            )
            for minute in minutes
        ],
        ignore_conflicts=True,
    )
    tallies.filter(minute__lt=now - KEPT).delete()
    return len(minutes)


def whole_minute(instant: datetime) -> datetime:
    """Return when the minute of an instant began."""
    return instant.replace(second=0, microsecond=0)


def _to_count(tallies: QuerySet[Any], now: datetime) -> list[datetime]:
    """Return the minutes that are to be counted, by when they began, oldest first."""
    end = whole_minute(now - _GRACE)
    start = end - _MOST_MINUTES * MINUTE
    # One of the future, from a server whose clock was ahead, stops nothing.
    told = tallies.filter(minute__lt=end).order_by("-minute")
    last = told.values_list("minute", flat=True).first()
    if last is not None:
        start = max(start, last + MINUTE)
    return [start + n * MINUTE for n in range(max(0, (end - start) // MINUTE))]


def _counts(
    jobs: QuerySet[Any], kinds: list[tuple[Status, str, str]], minutes: list[datetime]
) -> dict[datetime, Counter[Status]]:
    asked = [(minute, kind) for minute in minutes for kind in kinds]
    wheres = [
        {
            "status": status,
            "queue": queue,
            "task": task,
            "finished_at__gte": minute,
            "finished_at__lt": minute + MINUTE,
        }
        for minute, (status, queue, task) in asked
    ]
    numbers = db.bounded_counts(
        jobs.order_by(), "leasequeue_finished", wheres, _MOST_COUNTED
    )
    counts: dict[datetime, Counter[Status]] = defaultdict(Counter)
    for (minute, (status, _, _)), number in zip(asked, numbers, strict=True):
        counts[minute][status] += number
    return counts
