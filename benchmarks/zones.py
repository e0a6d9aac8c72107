"""Cron lines in every time zone, 2020 to 2035: `python -m benchmarks.zones [ZONE ...]`.

Walks the hours around each change of each clock minute by minute, and compares what the walk
meets with what `recurrence` says: nothing twice, nothing left out, in ascending order; and
counts the days of all the years. Needs no database.
"""

import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo, available_timezones

from django_leasequeue.recurrence.ticks import CronLine

START, END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
AROUND = 36 * HOUR
# No clock is changed back within so long.
STEP = 6 * HOUR
# Each with the minutes and the hours that it stands for, and whether it goes by time of day.
ALL = frozenset(range(60))
HOURS = frozenset(range(24))
LINES = {
    "30 2 * * *": ({30}, {2}, True),
    "0 0 * * *": ({0}, {0}, True),
    "0,15,59 0,1,2,3 * * *": ({0, 15, 59}, {0, 1, 2, 3}, True),
    "45 3,23 * * *": ({45}, {3, 23}, True),
    "*/20 * * * *": ({0, 20, 40}, HOURS, False),
    "30 * * * *": ({30}, HOURS, False),
    "*/7 0-3 * * *": (set(range(0, 60, 7)), {0, 1, 2, 3}, False),
    "5 */2 * * *": ({5}, set(range(0, 24, 2)), False),
}


def changes(zone, start=START, end=END):
    """Return the instants at which the clock is put forward or back, to the minute."""
    found = []
    for number in range(int((end - start) / STEP)):
        low, high = start + number * STEP, start + (number + 1) * STEP
        before = low.astimezone(zone).utcoffset()
        if high.astimezone(zone).utcoffset() == before:
            continue
        while low.astimezone(zone).utcoffset() == before:
            low += MINUTE
        found.append(low)
    return found


def walked(line, zone, start, end):
    """Return the ticks that somebody meets who looks at the clock each minute.

    Of a time of day: the first look at which the clock shows it or has gone past it, which it
    has not done before.
    """
    minutes, hours, by_day = LINES[line]
    found = []
    furthest = _shown(start, zone)
    instant = start + MINUTE
    while instant <= end:
        shown = _shown(instant, zone)
        if not by_day:
            if shown.minute in minutes and shown.hour in hours:
                found.append(instant)
        elif shown > furthest:
            passed = range(int((shown - furthest) / MINUTE))
            readings = (shown - number * MINUTE for number in passed)
            if any(one.minute in minutes and one.hour in hours for one in readings):
                found.append(instant)
        furthest = max(furthest, shown)
        instant += MINUTE
    return found


def _shown(instant, zone):
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def said(line, name, start, end):
    """Return the ticks that `recurrence` tells after `start`, up to `end`."""
    ticks = CronLine(line, name).after(start)
    return list(takewhile(lambda tick: tick <= end, ticks))


def problems(name, lines=tuple(LINES), spared=frozenset()):
    """Yield what is wrong in this zone. `spared`: numbers of the changes to pass over."""
    zone = ZoneInfo(name)
    for number, change in enumerate(changes(zone)):
        if number in spared:
            continue
        start, end = change - AROUND, change + AROUND
        for line in lines:
            met, told = walked(line, zone, start, end), said(line, name, start, end)
            if met != told:
                yield f"{name} {line} at {change}: {sorted({*met} ^ {*told})}"
            # From wherever one starts, the rest is the same.
            for tick in told[:: max(len(told) // 7, 1)]:
                if said(line, name, tick, end) != told[told.index(tick) + 1 :]:
                    yield f"{name} {line} at {change}: another row from {tick} on"
    yield from _years(name)


def _years(name):
    """A time of day: once each local day of all the years, but in one that a zone left out."""
    zone = ZoneInfo(name)
    ticks = said("30 2 * * *", name, START, END)
    if any(a >= b for a, b in pairwise(ticks)):
        yield f"{name}: not in ascending order"
    days = {_shown(tick, zone).date() for tick in ticks}
    first, last = min(days), max(days)
    absent = {first + DAY * n for n in range((last - first).days)} - days
    if absent or len(ticks) != len(days):
        yield f"{name}: {len(ticks)} ticks on {len(days)} days, without {absent}"


def distinct():
    """Return a name of each group of zones whose clocks go alike in these years, and its size."""
    groups = {}
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        offsets, day = [], START
        while day < END:
            offsets.append(day.astimezone(zone).utcoffset())
            day += STEP
        groups.setdefault(tuple(offsets), []).append(name)
    return {names[0]: len(names) for names in groups.values()}


def main(names):
    """Look at the zones of these names, or at all; return the exit code."""
    zones = dict.fromkeys(names, 1) or distinct()
    wrong = walks = 0
    for name in zones:
        walks += len(changes(ZoneInfo(name))) * len(LINES)
        for problem in problems(name):
            wrong += 1
            print(problem)
    print(
        f"{sum(zones.values())} zones, {len(zones)} of them different, {len(LINES)} lines, "
        f"{walks} walks around changes: {wrong} problems."
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
