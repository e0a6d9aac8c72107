"""When jobs were dispatched, by year, month, day and hour, without an index of the times.

Ids rise with the time of the dispatch, so a period is a range of ids, which a few looks find.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import formats, timezone
from django.utils.text import capfirst

from django_leasequeue import db

# Each with how it is written in an address.
UNITS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}
_NAMES = list(UNITS)
# How far ids and times may be out of step: rows of one statement share its time, and
# statements overlap.
SLACK = timedelta(minutes=1)
# Years that an address may name: away from the calendar's ends, by hours and more.
EARLIEST, LATEST = 1970, 9999


@dataclass(frozen=True)
class Period:
    """A year, month, day or hour of the current time zone; `start` is naive."""

    start: datetime
    unit: str

    @classmethod
    def parse(cls, text: str) -> "Period":
        """Return the period that an address names; raises ValueError."""
        for unit, form in UNITS.items():
            try:
                period = cls(datetime.strptime(text, form), unit)  # noqa: DTZ007
            except ValueError:
                continue
            if str(period) == text and EARLIEST <= period.start.year < LATEST:
                return period
        raise ValueError(f"{text!r} is no period.")

    def __str__(self) -> str:
        return self.start.isoformat()[: _LENGTHS[self.unit]]

    @property
    def end(self) -> datetime:
        """When the next one begins."""
        if self.unit == "hour":
            return self.start + timedelta(hours=1)
        if self.unit == "day":
            return self.start + timedelta(days=1)
        if self.unit == "month":
            return (self.start + timedelta(days=31)).replace(day=1)
        return self.start.replace(year=self.start.year + 1)

    def bounds(self) -> tuple[datetime, datetime]:
        """Return the instants between which it lies, in UTC."""
        zone = timezone.get_current_timezone()
        start, end = (
            timezone.make_aware(one, zone).astimezone(UTC)
            for one in (self.start, self.end)
        )
        return start, end

    @property
    def title(self) -> str:
        """What it is called, as part of the longer one."""
        if self.unit == "hour":
            return formats.time_format(self.start.time(), "TIME_FORMAT")
        if self.unit == "year":
            return f"{self.start.year}"
        form = "YEAR_MONTH_FORMAT" if self.unit == "month" else "MONTH_DAY_FORMAT"
        return capfirst(formats.date_format(self.start, form))

    @property
    def longer(self) -> "Period | None":
        """The period that it is a part of."""
        place = _NAMES.index(self.unit)
        return of(self.start, _NAMES[place - 1]) if place else None

    def parts(self, first: datetime, last: datetime) -> list["Period"]:
        """Return the next shorter ones in it between two local times; none of an hour."""
        if self.unit == "hour":
            return []
        return _between(
            max(first, self.start),
            min(last, self.end - timedelta(microseconds=1)),
            _NAMES[_NAMES.index(self.unit) + 1],
        )


_LENGTHS = {"year": 4, "month": 7, "day": 10, "hour": 13}


def of(instant: datetime, unit: str) -> Period:
    """Return the period of this unit that a local time lies in."""
    start = instant.replace(minute=0, second=0, microsecond=0)
    if unit != "hour":
        start = start.replace(hour=0)
    if unit in ("month", "year"):
        start = start.replace(day=1)
    return Period(start.replace(month=1) if unit == "year" else start, unit)


def choices(
    period: Period | None, first: datetime, last: datetime
) -> tuple[Period | None, list[Period]]:
    """Return the period to go back to, and those to choose from; the last if there are none.

    `first`, `last`: local times between which there are jobs. As of Django's own, what all
    have in common is passed over.
    """
    if period is None:
        found: list[Period] = []
        for unit in _NAMES:
            found = _between(first, last, unit)
            if len(found) > 1:
                break
        return None, found
    return period.longer, period.parts(first, last)


def _between(first: datetime, last: datetime, unit: str) -> list[Period]:
    found = []
    period = of(first, unit)
    # Only a row made by hand is of the calendar's last year, which has no end.
    while period.start <= last and period.start.year < LATEST:
        found.append(period)
        period = Period(period.end, unit)
    return found


def range_of(jobs: QuerySet[Any], period: Period) -> tuple[int, int]:
    """Return ids (low, high): of the jobs dispatched in it none is below or from there on."""
    start, end = period.bounds()
    (low, _), (_, high) = db.key_ranges(
        jobs, "created_at", [start - SLACK, end + SLACK]
    )
    return low, high
