"""The next firings of a schedule, for people."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from django_leasequeue.recurrence import zones
from django_leasequeue.recurrence.ticks import Ticks


class Firing(NamedTuple):
    """A tick to come: in UTC, in the schedule's zone, and whether its clock changes that day."""

    at: datetime
    local: datetime
    clock_changes: bool


def preview(ticks: Ticks, zone: str, after: datetime, count: int) -> Iterator[Firing]:
    """Yield the next `count` firings. Raises ValueError for a zone that is not known."""
    found = zones.find_zone(zone)
    for tick in islice(ticks.after(after), count):
        try:
            local = tick.astimezone(found)
            changes = zones.changes_that_day(tick, found)
        except OverflowError:  # the end of the calendar
            return
        yield Firing(tick, local, changes)
