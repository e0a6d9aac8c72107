"""The instants of a cron line or an interval, in order."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, takewhile
from typing import Protocol

from cronsim import CronSim, CronSimError

from django_leasequeue.recurrence import zones

CRON, EVERY = "cron", "every"
_MICROSECOND = timedelta(microseconds=1)
# From a leap year's start, so that 29 February is near. Any would do.
_SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001


class Ticks(Protocol):
    """Instants in ascending order, none twice."""

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Yield all that are later than this, as aware datetimes in UTC."""
        ...


def make_ticks(
    kind: str,
    text: str,
    zone: str,
    anchor: datetime,
    starts: datetime | None = None,
    ends: datetime | None = None,
) -> Ticks:
    """Return the ticks of a schedule. Raises ValueError for what can't be.

    `anchor`: what an interval is counted from; `starts` counts instead where it is given.
    The ticks lie from `starts` on and before `ends`.
    """
    if kind == CRON:
        return _Bounded(CronLine(text, zone), starts, ends)
    if kind == EVERY:
        return _Bounded(Interval(text, starts or anchor), starts, ends)
    raise ValueError(f"A schedule is of the kind 'cron' or 'every', not {kind!r}.")


class CronLine:
    """A cron line, by the local clock of a zone.

    Its fields are read and matched by cronsim, on readings alone. What becomes of them when
    the clock changes is decided here, by the rules of Debian's cron: see docs/schedules.md.
    """

    def __init__(self, text: str, zone: str) -> None:
        self.text, self.zone = text, zones.find_zone(zone)
        self._check()
        minute, hour = text.split()[-5:-3]
        self._is_wild = minute.startswith("*") or hour.startswith("*")

    def after(self, instant: datetime) -> Iterator[datetime]:
        """See Ticks."""
        # The end of the calendar, by the clock of the zone.
        with contextlib.suppress(OverflowError):
            yield from self._wild(instant) if self._is_wild else self._fixed(instant)

    def _fixed(self, last: datetime) -> Iterator[datetime]:
        """A time of day: once each day, however the clock comes to it."""
        for shown in self._matches(zones.reading(last, self.zone)):
            instant = zones.reached(shown, self.zone)
            if instant > last:
                yield instant
                last = instant

    def _wild(self, last: datetime) -> Iterator[datetime]:
        """Many times a day: whenever the clock shows it."""
        offset = zones.offset(last, self.zone)
        shown = last.replace(tzinfo=None) + offset
        while True:
            for match in self._matches(shown):
                instant = (match - offset).replace(tzinfo=UTC)
                change = zones.change_between(last, instant, self.zone)
                if change is not None:
                    break
                yield instant
                last = instant
            else:
                return
            # From here on the clock shows something else.
            last, offset = change, zones.offset(change, self.zone)
            shown = change.replace(tzinfo=None) + offset - zones.SECOND

    def _matches(self, shown: datetime) -> Iterator[datetime]:
        return CronSim(self.text, shown)

    def _check(self) -> None:
        try:
            if next(iter(CronSim(self.text, _SOME_DAY)), None) is not None:
                return
            problem = "no day of fifty years fits it"
        except CronSimError as error:
            text = str(error) or "it can't be read"
            problem = text[0].lower() + text[1:]
        except Exception as error:  # such as an assertion of the parser's
            problem = f"it can't be read ({type(error).__name__})"
        raise ValueError(
            f"{self.text!r} is no cron line that can be kept: {problem}. It takes five fields, "
            "minute, hour, day of month, month and day of week, as in '*/10 * * * *', or six "
            "with the second first."
        )


class Interval:
    """Every so many seconds, counted from an anchor, so that no delay adds up."""

    def __init__(self, text: str, anchor: datetime) -> None:
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 3_155_760_000):
            raise ValueError(
                f"An interval is a whole number of seconds, 1 to a century, not {text!r}."
            )
        self._step, self._anchor = timedelta(seconds=int(text)), anchor

    def after(self, instant: datetime) -> Iterator[datetime]:
        """See Ticks."""
        number = max((instant - self._anchor) // self._step + 1, 0)
        try:
            while True:
                yield self._anchor + number * self._step
                number += 1
        except OverflowError:  # the end of the calendar
            return


class _Bounded:
    def __init__(
        self, ticks: Ticks, starts: datetime | None, ends: datetime | None
    ) -> None:
        self._ticks, self._starts, self._ends = ticks, starts, ends

    def after(self, instant: datetime) -> Iterator[datetime]:
        found = self._ticks.after(instant)
        if self._starts is not None and self._starts > instant:
            starts = self._starts
            found = self._ticks.after(starts - _MICROSECOND)
            found = dropwhile(lambda tick: tick < starts, found)
        if self._ends is None:
            return found
        ends = self._ends
        return takewhile(lambda tick: tick < ends, found)
