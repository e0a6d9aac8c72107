"""recurrence: when a schedule fires, whatever is done to the clock."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import zones as walk
from django_leasequeue import Concurrency, Dedup, cron, every, registry
from django_leasequeue.recurrence import Recurrence, due, make_ticks, zones
from django_leasequeue.recurrence.ticks import CronLine, Interval
from django_leasequeue.schedules import preview
from tests.road import toy
from tests.tasks import add

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
DAY = timedelta(days=1)
BERLIN, NEW_YORK = "Europe/Berlin", ZoneInfo("America/New_York")


def utc(*when):
    return datetime(*when, tzinfo=UTC)


def local(text, tz, start, count):
    """Return what the local clock shows at the next ticks, with its offset in hours."""
    zone = ZoneInfo(tz)
    found = [
        tick.astimezone(zone) for tick in islice(CronLine(text, tz).after(start), count)
    ]
    return [one.strftime("%d %H:%M %z") for one in found]


# --- Clock changes


def test_121_a_daily_job_stays_at_its_hour():
    for tz in (BERLIN, "America/New_York"):
        zone = ZoneInfo(tz)
        ticks = list(islice(CronLine("0 12 * * *", tz).after(utc(2026, 1, 1)), 365))
        assert {tick.astimezone(zone).hour for tick in ticks} == {12}
        assert {b - a for a, b in pairwise(ticks)} == {
            23 * HOUR,
            DAY,
            25 * HOUR,
        }


def test_122_repeated_hour():
    """Case 122: a time of day comes once, in the first pass; what goes by `*` in both."""
    start = utc(2026, 10, 24, 12)
    assert local("30 2 * * *", BERLIN, start, 2) == ["25 02:30 +0200", "26 02:30 +0100"]
    assert local("30 * * * *", BERLIN, utc(2026, 10, 24, 23, 45), 3) == [
        "25 02:30 +0200",
        "25 02:30 +0100",
        "25 03:30 +0100",
    ]
    # Half an hour, in which cronsim itself leaves ticks out.
    howe = "Australia/Lord_Howe"
    assert local("*/5 3 * * *", howe, utc(2024, 4, 6, 10), 1) == ["07 03:00 +1030"]
    # By whose clock 2:45 is put forward to 3:45, and 3:45 back to 2:45.
    chatham = "Pacific/Chatham"
    start = utc(2026, 4, 3, 15)
    assert local("15 3 * * *", chatham, start, 2) == [
        "05 03:15 +1345",
        "06 03:15 +1245",
    ]
    # At midnight.
    santiago = "America/Santiago"
    assert local("0 0 * * *", santiago, utc(2026, 9, 5, 12), 1) == ["06 01:00 -0300"]


def test_123_missing_hour():
    """Case 123: what a gap leaves out comes at its end, once; the next day is a usual one."""
    start = utc(2026, 3, 28, 12)
    assert local("30 2 * * *", BERLIN, start, 2) == ["29 03:00 +0200", "30 02:30 +0200"]
    assert local("0,30 2,3 * * *", BERLIN, start, 3) == [
        "29 03:00 +0200",
        "29 03:30 +0200",
        "30 02:00 +0200",
    ]
    assert local("30 * * * *", BERLIN, utc(2026, 3, 29, 0, 0), 2) == [
        "29 01:30 +0100",
        "29 03:30 +0200",
    ]
    in_gap = utc(2026, 3, 29, 1)
    assert local("30 2 * * *", BERLIN, in_gap, 1) == ["30 02:30 +0200"]


# The rest of `python -m benchmarks.zones`, which takes minutes, is for its command.
SAMPLE = {
    BERLIN: 31,
    "Australia/Lord_Howe": 31,
    "America/Santiago": 1,
    "Africa/Casablanca": 1,
}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_walk_by_the_clock_meets_the_same_ticks(name):
    spared = {number for number in range(40) if number not in (SAMPLE[name], 0)}
    assert list(walk.problems(name, spared=spared)) == []


INSTANTS = st.datetimes(
    min_value=datetime(2020, 1, 1),  # noqa: DTZ001
    max_value=datetime(2035, 12, 31),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@given(st.sampled_from(sorted(SAMPLE)), st.sampled_from(sorted(walk.LINES)), INSTANTS)
def test_ticks_ascend_and_are_the_same_from_anywhere(name, text, start):
    line = CronLine(text, name)
    ticks = list(islice(line.after(start), 30))
    assert all(a < b for a, b in pairwise([start, *ticks]))
    middle = ticks[14] + (ticks[15] - ticks[14]) / 2
    assert list(islice(line.after(middle), 15)) == ticks[15:]


@given(INSTANTS, INSTANTS, st.integers(1, 10**7))
def test_138_intervals_do_not_drift(anchor, start, step):
    """Case 138: tick n is at the anchor plus n times the interval, whoever asks when."""
    ticks = list(islice(Interval(str(step), anchor).after(start), 3))
    assert all((tick - anchor) % (step * SECOND) == timedelta(0) for tick in ticks)
    assert ticks[0] > start and ticks[0] - step * SECOND <= max(start, anchor)
    assert ticks[2] - ticks[0] == 2 * step * SECOND


def test_days_with_a_change_are_known():
    zone = zones.find_zone(BERLIN)
    assert zones.changes_that_day(utc(2026, 3, 29, 20), zone)
    assert zones.changes_that_day(
        utc(2026, 10, 24, 22, 30), zone
    )  # just after midnight
    assert not zones.changes_that_day(utc(2026, 3, 28, 20), zone)
    assert not zones.changes_that_day(utc(2026, 3, 29, 22, 30), zone)


# --- What can't be


@pytest.mark.parametrize(
    "text, why",
    [
        ("0 0 31 2 *", "bad day-of-month"),
        ("0 0 30 2,2 *", "bad day-of-month"),
        ("* * */20 * 1L", "no day of fifty years"),
        ("61 * * * *", "bad minute"),
        ("@daily", "wrong number of fields"),
        ("* * * *", "wrong number of fields"),
        ("* * * * MON#9", "bad day-of-week"),
        ("* * L/x * *", "bad day-of-month"),
        ("1 1 MON#1/2 * *", "bad day-of-month"),
        ("*/0 * * * *", "bad minute"),
    ],
)
def test_124_what_can_not_be_kept_is_refused(text, why):
    with pytest.raises(ValueError, match=f"no cron line that can be kept: {why}"):
        cron(text)


@pytest.mark.parametrize("text", ["0 0 29 2 *", "*/5 * 29 2 *", "0 0 * 2 MON#5"])
def test_124_rare_lines_are_found(text):
    """Case 124: by few steps: days, not minutes."""
    tick = next(CronLine(text, BERLIN).after(utc(2096, 3, 1)))
    assert tick.year in (2104, 2112)


def test_the_end_of_the_calendar_is_an_end():
    last = datetime(9999, 12, 31, 12, tzinfo=UTC)
    assert list(CronLine("0 * * * *", "UTC").after(last))[-1].hour == 23
    assert list(Interval("3600", NOON).after(last))[-1].hour == 23


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("line", ["0 3 * * *", "0 23 * * *", "*/7 * * * *"])
def test_the_end_of_the_calendar_comes_by_the_zones_clock(line, zone):
    """Which a schedule that starts "never" comes to."""
    last = datetime(9999, 12, 31, 23, 50, tzinfo=UTC)
    assert all(tick > last for tick in CronLine(line, zone).after(last))
    rule = cron(line, tz=zone, starts=last)
    ticks = make_ticks(rule.kind, rule.text, zone, NOON, rule.starts)
    assert all(firing.at >= last for firing in preview(ticks, zone, NOON, 20))


@pytest.mark.parametrize(
    "make",
    [
        lambda: cron("* * * * *", tz="Europe/Nowhere"),
        lambda: cron("* * * * *", tz="../etc/passwd"),
        lambda: cron("* * * * *", tz=""),
        lambda: every(minutes=0),
        lambda: every(seconds=1.5),
        lambda: every(days=40_000),
        lambda: every(hours=1, starts=datetime(2026, 1, 1)),  # noqa: DTZ001
        lambda: every(weeks=1e12),
        lambda: every(hours=1, starts=NOON, ends=NOON),
        lambda: every(hours=1, ends=datetime.max.replace(tzinfo=NEW_YORK)),
        lambda: every(hours=1, missed="some"),
        lambda: every(hours=1, overlap="wait"),
        lambda: every(hours=1, cap=0),
        lambda: every(hours=1, limit=0),
        lambda: every(hours=1, name="x" * 256),
        lambda: cron("0 0 * * *", dedup=""),
    ],
)
def test_values_that_can_not_be(make):
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: cron(5),
        lambda: every(hours=1, tz="UTC"),
        lambda: every(hours=1, args="ab"),
        lambda: every(hours=1, kwargs=[1]),
        lambda: every(hours=1, starts="2026-01-01"),
        lambda: every(hours=1, limit=True),
        lambda: every(hours=1, sometimes=True),
        # Case 139: what is worked out once would be frozen.
        lambda: every(hours=1, args=[lambda: 1]),
        lambda: every(hours=1, kwargs={"day": NOON}),
    ],
)
def test_139_types_that_can_not_be(make):
    with pytest.raises(TypeError):
        make()


# --- Starts, ends


def test_ticks_lie_from_starts_and_before_ends():
    starts, ends = NOON, NOON + 3 * HOUR
    ticks = make_ticks("every", "3600", "UTC", utc(2020, 1, 1), starts, ends)
    assert list(ticks.after(NOON - DAY)) == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert list(ticks.after(NOON)) == [NOON + HOUR, NOON + 2 * HOUR]
    ticks = make_ticks("cron", "0 * * * *", "UTC", NOON, starts, ends)
    assert list(ticks.after(NOON - DAY)) == [NOON, NOON + HOUR, NOON + 2 * HOUR]


# --- Missed ticks


def ticks_of(step, anchor=NOON):
    return make_ticks("every", str(step), "UTC", anchor)


def test_127_the_latest_of_those_missed():
    ticks, now = ticks_of(60), NOON + 3 * HOUR + SECOND
    assert due(ticks, NOON, now, "latest", 100) == (
        [NOON + 3 * HOUR],
        NOON + 3 * HOUR,
        False,
    )
    assert due(ticks, NOON + 3 * HOUR, now, "latest", 100) == ([], None, False)


def test_127_all_of_those_missed_up_to_a_cap():
    found = due(ticks_of(60), NOON, NOON + 3 * HOUR, "all", 5)
    assert found.ticks == [NOON + 3 * HOUR - n * MINUTE for n in (4, 3, 2, 1, 0)]
    assert len(due(ticks_of(60), NOON, NOON + 4 * MINUTE, "all", 5).ticks) == 4


def test_127_none_of_those_missed():
    ticks = ticks_of(3600)
    assert due(ticks, NOON, NOON + HOUR + MINUTE, "none", 5).ticks == [NOON + HOUR]
    late = due(ticks, NOON, NOON + HOUR + 61 * SECOND, "none", 5)
    assert late == ([], NOON + HOUR, True)


def test_a_clock_that_was_put_back_finds_nothing():
    assert due(ticks_of(60), NOON + HOUR, NOON, "all", 5) == ([], None, False)


def test_years_of_missed_minutes_cost_no_more_than_an_hour_of_them():
    asked = []

    class Counted:
        def after(self, instant):
            for tick in CronLine("* * * * *", "UTC").after(instant):
                asked.append(tick)
                yield tick

    assert len(due(Counted(), utc(2006, 1, 1), NOON, "all", 100).ticks) == 100
    assert len(asked) < 1000


# --- On the task


def test_a_task_names_its_schedules():
    rule = every(minutes=5, args=[1, 2])
    with toy(lambda a, b: None, name="sum", schedule=rule):
        (task, found) = registry.declared()["sum"]
        assert task.name == "sum" and found == rule.called("sum")
    several = [
        cron("0 0 * * *", args=[1, 2]),
        every(hours=1, name="hourly", args=(3, 4)),
    ]
    with toy(lambda a, b: None, name="sum", schedule=several):
        assert {"sum", "hourly"} <= registry.declared().keys()
    assert "hourly" not in registry.declared()


@pytest.mark.parametrize(
    "function, schedule, why",
    [
        (lambda a: None, every(hours=1), "Schedule .*: Arguments don't fit"),
        (lambda: None, "* * * * *", "made by cron"),
        (lambda: None, [every(hours=1), every(hours=2)], "have one name"),
        (lambda: None, every(hours=1, name="taken"), "Two tasks want a schedule"),
    ],
)
def test_wrong_schedules_of_a_task(function, schedule, why):
    with (
        toy(test_columns_of_a_row, schedule=every(hours=2, name="taken", args=[1])),
        pytest.raises((TypeError, ValueError), match=why),
        toy(function, schedule=schedule),
    ):
        pass


def test_columns_of_a_row(settings):
    settings.TIME_ZONE = "Pacific/Chatham"
    rules = Dedup("x", ttl=60, until="finished", replace=True)
    limit = Concurrency("shop", limit=2)
    columns = cron(
        " 0  0 * * * ", dedup=rules, concurrency=limit, priority=5, args=(1, [2])
    ).columns("t")
    assert (columns["expression"], columns["tz"]) == ("0 0 * * *", "Pacific/Chatham")
    assert columns["args"] == [1, [2]]
    assert columns["options"] == {
        "priority": 5,
        "concurrency": {"key": "shop", "limit": 2, "supersedes": False},
        "dedup": {"id": "x", "ttl": 60.0, "until": "finished", "replace": True},
    }
    assert isinstance(every(hours=1), Recurrence) and add.options.schedule == ()
