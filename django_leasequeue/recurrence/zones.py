"""Local clocks: what they read, and when they are put forward or back.

An instant is an aware datetime in UTC; a reading is a naive datetime, what the clock shows.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND = timedelta(seconds=1)
# Two changes of one clock that cancel each other lie further apart than this.
_STEP = timedelta(hours=12)


def find_zone(name: str) -> ZoneInfo:
    """Return the time zone of this IANA name. Raises ValueError."""
    try:
        return ZoneInfo(name)
    # What a name can do besides not being there: it is looked for as a file.
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise ValueError(
            f"{name!r} is no time zone that is known here. Names are those of the IANA "
            "database, such as 'Europe/Paris'; where the system has none, install tzdata."
        ) from error


def offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    """Return by how much the clock is ahead of UTC."""
    found = instant.astimezone(zone).utcoffset()
    assert found is not None
    return found


def reading(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return what the clock shows."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def reached(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant at which the clock shows that, or has been put past it."""
    instant = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if reading(instant, zone) == shown:
        return instant
    # By the offsets after and before the gap it lies before and after the change.
    early = shown.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return change_between(early, instant, zone) or instant


def change_between(start: datetime, end: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the first instant after `start`, up to `end`, with another offset than before."""
    before = offset(start, zone)
    while start < end:
        after = end if end - start <= _STEP else start + _STEP
        if offset(after, zone) != before:
            return _change_within(start, after, zone)
        start = after
    return None


def _change_within(start: datetime, end: datetime, zone: ZoneInfo) -> datetime:
    before = offset(start, zone)
    start = start.replace(microsecond=0)
    while end - start > SECOND:
        middle = start + (end - start) // 2
        middle = middle.replace(microsecond=0)
        if offset(middle, zone) == before:
            start = middle
        else:
            end = middle
    return end.replace(microsecond=0)


def changes_that_day(instant: datetime, zone: ZoneInfo) -> bool:
    """Whether the clock is put forward or back on the local day of this instant."""
    day = reading(instant, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    start, end = reached(day, zone), reached(day + timedelta(days=1), zone)
    return change_between(start - SECOND, end - SECOND, zone) is not None
