"""What ended over time: the last hour by minutes, and the last day by quarters of an hour."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.models import Tally
from django_leasequeue.transitions.tally import KEPT, MINUTE, whole_minute

QUARTER = timedelta(minutes=15)
MINUTES, QUARTERS = 60, 96
# Workers count a minute within so long; if none has, there is a gap to be seen.
_PATIENCE = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class Bar:
    """What ended from `start` on; `counted`: False if no worker has counted any of it."""

    start: datetime
    counted: bool
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON: without numbers unless it is counted."""
        numbers = {
            "succeeded": self.succeeded,
            "failed": self.failed,
            "cancelled": self.cancelled,
        }
        return {"start": self.start.isoformat(), **(numbers if self.counted else {})}


@dataclass(frozen=True, slots=True)
class History:
    """Bars, oldest first. `until`: to where it is counted; None if nothing is."""

    until: datetime | None
    hour: list[Bar]
    day: list[Bar]

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "until": self.until and self.until.isoformat(),
            "hour": [bar.as_dict() for bar in self.hour],
            "day": [bar.as_dict() for bar in self.day],
        }


def history(using: str) -> History:
    """Read the tallies, some 1,500 narrow rows at the most. Two statements."""
    now = db.database_now(using)
    rows: QuerySet[Tally] = QuerySet(Tally, using=using)
    lasting = rows.filter(minute__gte=now - KEPT, minute__lt=now).order_by("minute")
    read = list(lasting.values_list("minute", "succeeded", "failed", "cancelled"))
    until = read[-1][0] + MINUTE if read else None
    end = whole_minute(now)
    if until is not None and end - until <= _PATIENCE:
        end = until
    last_quarter = end - (end - datetime.min.replace(tzinfo=end.tzinfo)) % QUARTER
    if last_quarter == end:
        last_quarter -= QUARTER
    return History(
        until=until,
        hour=_bars(read, end - MINUTES * MINUTE, MINUTE, MINUTES),
        day=_bars(read, last_quarter - (QUARTERS - 1) * QUARTER, QUARTER, QUARTERS),
    )


def _bars(
    read: list[tuple[datetime, int, int, int]],
    start: datetime,
    step: timedelta,
    count: int,
) -> list[Bar]:
    sums: dict[int, list[int]] = {}
    for minute, *numbers in read:
        number = (minute - start) // step
        known = sums.setdefault(number, [0, 0, 0])
        sums[number] = [a + b for a, b in zip(known, numbers, strict=True)]
    return [
        Bar(start + n * step, n in sums, *sums.get(n, (0, 0, 0))) for n in range(count)
    ]
