"""The tally: what ended in each minute, counted once; and the history that is made of it."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Tally
from django_leasequeue.monitoring.history import history
from django_leasequeue.transitions import tally as module
from django_leasequeue.transitions.tally import MINUTE, tally, whole_minute
from django_leasequeue.worker.tallier import Tallier
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import statements

DAY = timedelta(days=1)


def minute(ago):
    """Return when the minute began that was over so many minutes ago."""
    now = db.database_now("default") - timedelta(seconds=10)
    return whole_minute(now) - (ago + 1) * MINUTE


def count():
    return tally(QuerySet(Job), QuerySet(Tally))


def ended(at, number=1, **how):
    JobFactory.create_batch(number, finished_at=at + timedelta(seconds=30), **how)


def tallied():
    """Return what is counted of each minute in which anything ended."""
    columns = ("minute", "succeeded", "failed", "cancelled")
    return {at: rest for at, *rest in Tally.objects.values_list(*columns) if any(rest)}


def test_the_databases_time():
    now = db.database_now("default")
    job = JobFactory()
    assert timedelta() <= job.created_at - now < timedelta(minutes=5)
    assert now.utcoffset() == timedelta()


def test_minutes_that_are_over():
    """Each by how its jobs ended, whatever their queue and task; the bounds are its own."""
    last = minute(0)
    before = last - MINUTE
    ended(last, 2, succeeded=True)
    ended(last, succeeded=True, queue="mail")
    ended(last, succeeded=True, task="other")
    ended(last, failed=True)
    ended(before, cancelled=True)
    JobFactory(failed=True, finished_at=before)
    JobFactory(failed=True, finished_at=last + MINUTE)
    JobFactory(leased=True)
    # A minute may be over in between.
    assert count() == 60
    found = tallied()
    assert found[last] == [4, 1, 0]
    assert found[before] == [0, 1, 1]
    assert Tally.objects.count() == 60


def test_each_minute_is_counted_once():
    last = minute(0)
    ended(last, succeeded=True)
    Tally.objects.create(minute=last - MINUTE)
    ended(last - MINUTE, succeeded=True)
    assert count() >= 1
    assert count() <= 1
    found = tallied()
    assert found[last] == [1, 0, 0] and len(found) == 1


def test_another_has_counted_meanwhile(monkeypatch):
    """The first one's row stays, and nothing fails."""
    last = minute(0)
    Tally.objects.create(minute=last, succeeded=7)
    ended(last, succeeded=True)
    monkeypatch.setattr(module, "_to_count", lambda tallies, now: [last])
    assert count() == 1
    assert tallied() == {last: [7, 0, 0]}


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(days=365 * 7000)])
def test_a_minute_of_the_future_stops_nothing(ahead):
    """Counted before a server took over whose clock is behind, or written by hand."""
    last = minute(0)
    Tally.objects.create(minute=last + ahead, failed=7)
    ended(last, succeeded=True)
    assert count() == 60
    assert tallied() == {last: [1, 0, 0], last + ahead: [0, 7, 0]}
    told = history("default")
    assert last < told.until <= last + 2 * MINUTE
    assert not any(bar.failed for bar in told.day)


def test_old_minutes_go():
    last = minute(0)
    Tally.objects.create(minute=last - timedelta(hours=26), succeeded=1)
    kept = last - timedelta(hours=24)
    Tally.objects.create(minute=kept, succeeded=1)
    count()
    assert tallied() == {kept: [1, 0, 0]}


def test_very_many_queues_are_counted_for_fewer_minutes(monkeypatch):
    """The newest, so that the first time is not the longest."""
    monkeypatch.setattr(module, "_MOST_LOOKS", 6)
    last = minute(0)
    for name in ("a", "b", "c"):
        ended(last, succeeded=True, queue=name)
    assert count() == 2
    assert max(tallied().values()) == [3, 0, 0]


def test_statements():
    """As many, whatever there is."""
    ended(minute(5), 3, succeeded=True)
    count()
    seen_counts = set()
    for number in range(2):
        last = minute(0)
        ended(last, 3, succeeded=True, task=f"task {number}")
        Tally.objects.filter(minute__gte=last).delete()
        with statements() as seen:
            assert count() in (1, 2)
        seen_counts.add(len([sql for sql in seen if "SAVEPOINT" not in sql]))
    # The time, the last minute, kinds of three statuses, the counts, the rows, the old ones.
    assert seen_counts == {8}


# --- In the worker


def test_the_workers_take_turns():
    ended(minute(0), succeeded=True)
    Tallier("default", "a").look()
    assert [*tallied().values()] == [[1, 0, 0]]
    Tally.objects.all().delete()
    Tallier("default", "b").look()
    assert not Tally.objects.exists()


def test_its_trouble_is_not_the_pruners(caplog):
    """As where the table is not there yet; it says so once."""
    one = Tallier("default", "a")
    with failing(OperationalError("no such table"), times=99):
        one.look()
        one.look()
    assert caplog.text.count("Cannot count finished jobs now") == 1


# --- The history


def test_history():
    """The last hour and day, with what is counted and what is not."""
    assert history("default").until is None
    last = minute(0)
    for ago, counts in {0: (5, 1), 1: (3, 0), 59: (2, 0), 70: (1, 0)}.items():
        Tally.objects.create(
            minute=last - ago * MINUTE, succeeded=counts[0], failed=counts[1]
        )
    found = history("default")
    assert found.until == last + MINUTE
    hour = found.hour
    assert len(hour) == 60 and len(found.day) == 96
    assert [bar.start for bar in hour] == [last - n * MINUTE for n in range(59, -1, -1)]
    assert [
        (n, bar.succeeded, bar.failed) for n, bar in enumerate(hour) if bar.counted
    ] == [
        (0, 2, 0),
        (58, 3, 0),
        (59, 5, 1),
    ]
    assert sum(bar.succeeded for bar in found.day) == 11
    for bar in found.day:
        assert bar.start.minute % 15 == 0 and bar.start.second == 0
    assert found.day[-1].start <= last < found.day[-1].start + timedelta(minutes=15)
    told = found.as_dict()
    assert told["hour"][59]["succeeded"] == 5
    assert "succeeded" not in told["hour"][57]


def test_a_history_that_nobody_goes_on_with_has_a_gap():
    Tally.objects.create(minute=minute(20), succeeded=5)
    hour = history("default").hour
    assert not any(bar.counted for bar in hour[-15:])
    assert sum(bar.succeeded for bar in hour) == 5


@pytest.mark.parametrize("offset", [DAY, timedelta(hours=1)])
def test_history_takes_two_statements(offset):
    last = minute(0)
    Tally.objects.bulk_create(
        Tally(minute=last - n * offset / 60, succeeded=1) for n in range(60)
    )
    with statements() as seen:
        found = history("default")
    assert len(seen) == 2
    assert sum(bar.succeeded for bar in found.day) == 60


def test_now_is_the_databases():
    """Not the web server's: DatabaseNow and database_now are one clock."""
    at = JobFactory(run_at=DatabaseNow()).run_at
    assert at <= db.database_now("default")
