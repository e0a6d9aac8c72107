"""Which of the ticks that have passed are to be run: the rule for missed ones."""

from collections import deque
from datetime import datetime, timedelta
from itertools import takewhile
from typing import NamedTuple

from django_leasequeue.recurrence.ticks import Ticks

LATEST, ALL, NONE = "latest", "all", "none"
MISSED = (LATEST, ALL, NONE)
# Workers are late by milliseconds, and by seconds while they are started anew. What is later
# than this was missed.
TOO_LATE = timedelta(minutes=1)


class Due(NamedTuple):
    """The ticks to run, oldest first, and the last one that has passed, run or not."""

    ticks: list[datetime]
    passed: datetime | None
    # Whether the last one that has passed came too late to be run.
    missed: bool


def due(ticks: Ticks, since: datetime, now: datetime, rule: str, cap: int) -> Due:
    """Return which ticks after `since` are to be run at `now`.

    `rule`: "latest" runs the last of those that have passed, "all" the last `cap` of them,
    "none" the last unless it is more than a minute late.
    """
    found = _newest(ticks, since, now, cap if rule == ALL else 1)
    if not found:
        return Due([], None, False)
    if rule == NONE and now - found[-1] > TOO_LATE:
        return Due([], found[-1], True)
    return Due(found, found[-1], False)


def _newest(ticks: Ticks, since: datetime, now: datetime, count: int) -> list[datetime]:
    """Return the last `count` ticks after `since` and up to `now`.

    By looking further and further back, so that a year of missed minutes costs no more than
    an hour of them.
    """
    window = timedelta(minutes=1)
    while True:
        start = max(since, now - window)
        passed = takewhile(lambda tick: tick <= now, ticks.after(start))
        found = deque(passed, maxlen=count)
        if len(found) == count or start == since:
            return list(found)
        window *= 4
