"""firing: a tick that has passed becomes a job, once, or it is told why not."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, transaction

from django_leasequeue import Concurrency, Dedup, cron, every, signals
from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.firing import tick as firing_tick
from django_leasequeue.models import Job, Schedule
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import deadlock, ending_after, row, statements, toy
from tests.scheduling import (
    HALF,
    LONG,
    SECOND,
    STEP,
    a_schedule,
    database_now,
    nth,
    tick,
    tick_all,
    ticks,
)

ONES = {"args": [1, 2]}


def finish():
    for job in Job.objects.pending():
        JobFactory._meta.model.objects.filter(pk=job.pk).update(
            status="succeeded", finished_at=DatabaseNow()
        )


def read(schedule):
    return Schedule.objects.get(pk=schedule.pk)


def test_a_tick_becomes_one_job():
    rule = every(
        hours=1,
        args=[1],
        kwargs={"b": 2},
        queue="q",
        priority=7,
        group="g",
        concurrency=Concurrency("k", limit=3),
    )
    schedule = a_schedule(rule, ago=STEP + HALF)
    fired = tick(schedule)
    [job] = fired.jobs
    found = row(job)
    assert (found["schedule"], found["tick"]) == ("s", nth(schedule, 1))
    assert (found["args"], found["kwargs"]) == ([1], {"b": 2})
    assert (found["concurrency_key"], found["concurrency_limit"]) == ("k", 3)
    assert (found["queue"], found["priority"], found["group"]) == ("q", 7, "g")
    after = read(schedule)
    assert (after.last_tick, after.next_tick) == (
        nth(schedule, 1),
        nth(schedule, 2),
    )
    assert (after.fired, after.last_job) == (1, job.pk)
    assert tick(schedule) is None and Job.objects.count() == 1


def test_nothing_is_due_yet():
    schedule = a_schedule()
    assert tick(schedule).jobs == []  # it was to be looked at, and is not due
    assert read(schedule).next_tick == nth(schedule, 1)
    assert tick(schedule) is None and not Job.objects.exists()


# --- Missed ticks


def test_127_the_latest_of_three_hours_is_run():
    schedule = a_schedule(ago=3 * LONG + HALF)
    assert len(tick(schedule).jobs) == 1
    assert ticks() == [nth(schedule, 180)]
    assert read(schedule).next_tick == nth(schedule, 181)


def test_127_all_are_run_up_to_the_cap():
    rule = every(hours=1, missed="all", cap=5, overlap="allow", **ONES)
    schedule = a_schedule(rule, ago=3 * LONG + HALF)
    tick_all(schedule)
    assert ticks() == [nth(schedule, number) for number in range(176, 181)]
    assert read(schedule).fired == 5


def test_127_many_ticks_are_made_by_several_transactions(monkeypatch):
    """One that takes too long would be ended, again and again."""
    monkeypatch.setattr(firing_tick, "_LONG", 0)
    rule = every(hours=1, missed="all", cap=4, limit=3, overlap="allow", **ONES)
    schedule = a_schedule(rule, ago=3 * LONG + HALF)
    for number in (177, 178, 179):
        [job] = tick(schedule).jobs
        assert job.tick == nth(schedule, number)
        assert read(schedule).last_tick >= job.tick
    assert tick(schedule) is None and read(schedule).state == "ended"


def test_127_none_is_run():
    schedule = a_schedule(every(hours=1, missed="none", **ONES), ago=60 * STEP + HALF)
    assert tick(schedule).jobs == []
    after = read(schedule)
    assert after.last_tick == nth(schedule, 60)
    assert "missed" in after.skipped_why and after.skipped_tick == after.last_tick


def test_a_clock_that_was_put_back_repeats_nothing():
    schedule = a_schedule(ago=LONG + HALF)
    tick(schedule)
    finish()
    # The clock was an hour ahead when that was done.
    ahead = read(schedule).last_tick + LONG
    Schedule.objects.update(last_tick=ahead, next_tick=DatabaseNow())
    assert tick(schedule).jobs == []
    after = read(schedule)
    assert (after.last_tick, after.next_tick) == (ahead, ahead + STEP)
    assert Job.objects.count() == 1


def test_after_a_clock_that_was_far_ahead_a_resumed_schedule_goes_on():
    schedule = a_schedule(last_tick=database_now() + 1000 * LONG)
    assert tick(schedule).jobs == []
    mine = Schedule.objects.filter(pk=schedule.pk)
    mine.pause()
    mine.resume()
    assert tick(schedule).jobs == []
    after = read(schedule)
    assert after.next_tick - STEP < database_now() < after.next_tick


# --- Overlap


def test_132_a_tick_is_skipped_while_the_last_job_is_unfinished():
    schedule = a_schedule(ago=2 * STEP + HALF)
    Schedule.objects.update(since=nth(schedule, 0))
    [first] = tick(schedule).jobs
    Schedule.objects.update(last_tick=nth(schedule, 1), next_tick=nth(schedule, 2))
    Job.objects.update(tick=nth(schedule, 1))
    fired = tick(schedule)
    assert fired.jobs == [] and f"Job {first.pk} holds" in fired.skipped_why
    after = read(schedule)
    assert after.last_tick == nth(schedule, 2)  # it is dealt with
    assert (after.skipped_tick, after.fired) == (nth(schedule, 2), 1)
    finish()
    Schedule.objects.update(last_tick=nth(schedule, 1), next_tick=nth(schedule, 2))
    assert len(tick(schedule).jobs) == 1


def test_133_a_slow_consumer_finds_one_job():
    schedule = a_schedule(ago=10 * STEP + HALF)
    for number in range(1, 11):
        Schedule.objects.update(
            last_tick=nth(schedule, number - 1), next_tick=nth(schedule, number)
        )
        tick(schedule)
    assert Job.objects.count() == 1


def test_overlap_may_be_allowed():
    schedule = a_schedule(every(hours=1, overlap="allow", **ONES), ago=2 * STEP + HALF)
    tick(schedule)
    JobFactory(dedup_id="schedule:s")
    Schedule.objects.update(last_tick=nth(schedule, 0), next_tick=DatabaseNow())
    Job.objects.filter(tick__isnull=False).update(tick=nth(schedule, 1))
    assert len(tick(schedule).jobs) == 1
    assert Job.objects.count() == 3


def test_132_an_id_of_its_own_decides_instead():
    """Also one that a job of another task holds: the tick is skipped, nothing is raised."""
    rule = every(hours=1, dedup=Dedup("mine", replace=True), **ONES)
    schedule = a_schedule(rule, ago=STEP + HALF)
    holder = JobFactory(dedup_id="mine", dedup_hold="finished", task="tests.tasks.fail")
    fired = tick(schedule)
    assert fired.jobs == [] and "tests.tasks.fail" in fired.skipped_why
    Job.objects.update(task="tests.tasks.add", args=[5, 5])
    Schedule.objects.update(last_tick=nth(schedule, 0), next_tick=DatabaseNow())
    fired = tick(schedule)
    assert "replaced" in fired.skipped_why and fired.jobs == [holder]
    assert row(holder)["args"] == [1, 2]


def test_a_tasks_own_id_is_kept():
    with toy(lambda number: None, name="own", dedup="own:{}".format):
        schedule = a_schedule(every(hours=1, args=[7]), task="own", ago=STEP + HALF)
        [job] = tick(schedule).jobs
    assert row(job)["dedup_id"] == "own:7"


# --- From, until, limit


def test_starts_ends_and_limit():
    now = database_now().replace(microsecond=0)
    starts, ends = now - 4 * STEP, now + LONG
    rule = every(
        hours=1,
        starts=starts,
        ends=ends,
        limit=3,
        missed="all",
        overlap="allow",
        **ONES,
    )
    schedule = a_schedule(rule, ago=LONG)
    tick_all(schedule)
    assert ticks() == [starts, starts + STEP, starts + 2 * STEP]
    after = read(schedule)
    assert (after.fired, after.next_tick, after.state) == (3, None, "ended")
    Schedule.objects.update(limit=None, ends_at=now - STEP, next_tick=DatabaseNow())
    tick(schedule)
    assert read(schedule).next_tick is None and Job.objects.count() == 3


# --- Pause, resume, run now


def test_what_passes_in_a_pause_is_not_missed():
    schedule = a_schedule(ago=LONG)
    mine = Schedule.objects.filter(name="s")
    assert mine.pause(by="ann") == 1 and mine.pause(by="bob") == 0
    paused = read(schedule)
    assert (paused.state, paused.paused_by, paused.next_tick) == ("paused", "ann", None)
    assert tick(schedule) is None
    assert mine.resume() == 1 and mine.resume() == 0
    assert tick(schedule).jobs == []
    after = read(schedule)
    assert after.state == "active" and after.next_tick > database_now()
    assert (
        after.next_tick - schedule.created_at.replace(microsecond=0)
    ) % STEP == 0 * STEP


def test_a_pause_that_comes_between_look_and_tick():
    schedule = a_schedule(ago=LONG)
    Schedule.objects.update(paused_at=DatabaseNow())
    assert tick(schedule).jobs == [] and read(schedule).next_tick is None


def test_run_now():
    schedule = a_schedule(every(hours=1, meta={"a": 1}, **ONES))
    mine = Schedule.objects.filter(name="s")
    mine.pause()
    [(job, outcome)] = mine.run_now(by="ann")
    assert outcome == "added"
    found = row(job)
    assert (found["schedule"], found["tick"]) == ("s", None)
    assert found["meta"] == {"a": 1, "run_by": "ann"}
    [(again, outcome)] = mine.run_now()
    assert (again, outcome) == (job, "skipped")
    assert read(schedule).last_job == job.pk and read(schedule).fired == 0


def test_run_now_is_all_or_nothing():
    a_schedule(name="a")
    a_schedule(name="b", task="tests.tasks.fail")
    with pytest.raises(TypeError, match="don't fit"):
        Schedule.objects.filter(name__in=["a", "b"]).run_now()
    assert not Job.objects.exists()


def test_verbs_are_for_chosen_schedules():
    for verb in ("pause", "resume", "run_now"):
        assert not hasattr(Schedule.objects, verb)


# --- Hooks


@pytest.fixture
def before():
    connected = []

    def connect(receiver):
        signals.before_schedule.connect(receiver)
        connected.append(receiver)

    yield connect
    for receiver in connected:
        signals.before_schedule.disconnect(receiver)


def test_139_arguments_of_each_tick(before):
    def today(schedule, tick, **_):
        tick.args[1] = tick.at.minute
        assert transaction.get_connection().in_atomic_block

    before(today)
    schedule = a_schedule(ago=STEP + HALF)
    [job] = tick(schedule).jobs
    assert row(job)["args"] == [1, nth(schedule, 1).minute]
    assert read(schedule).args == [1, 2]


def test_a_tick_may_be_declined(before):
    before(lambda schedule, tick, **_: tick.decline("a holiday"))
    schedule = a_schedule(ago=STEP + HALF)
    assert tick(schedule).jobs == []
    after = read(schedule)
    assert (after.skipped_why, after.skipped_tick) == ("a holiday", nth(schedule, 1))
    assert (after.last_tick, after.fired) == (nth(schedule, 1), 0)


def test_an_error_of_a_receiver_keeps_the_tick(before):
    def broken(**_):
        raise RuntimeError("no")

    before(broken)
    schedule = a_schedule(ago=STEP + HALF)
    with pytest.raises(RuntimeError):
        tick(schedule)
    assert read(schedule).last_tick is None and not Job.objects.exists()


# --- What goes wrong


@pytest.mark.parametrize(
    "columns, error",
    [
        ({"task": "gone"}, UnknownTask),
        ({"expression": "x"}, ValueError),
        ({"kind": "moon"}, ValueError),
        ({"kind": "cron", "expression": "* * * * *", "tz": "Mars/Base"}, ValueError),
        ({"args": [1]}, TypeError),
        ({"options": {"queue": ""}}, ValueError),
        ({"options": {"nonsense": 1}}, TypeError),
    ],
)
def test_a_bad_row_changes_nothing(columns, error):
    schedule = a_schedule(ago=STEP + HALF, **columns)
    with pytest.raises(error):
        tick(schedule)
    assert read(schedule).last_tick is None and not Job.objects.exists()


def test_134_a_schedule_made_anew_does_not_repeat_a_job():
    """Case 134: nor is the old one's state taken for its own."""
    schedule = a_schedule(ago=STEP + HALF)
    tick(schedule)
    finish()
    schedule.delete()
    assert tick(schedule) is None
    again = a_schedule(every(hours=1, args=[3, 4]), created_at=schedule.created_at)
    Schedule.objects.update(since=schedule.created_at)
    fired = tick(again)
    assert fired.jobs == [] and "already" in fired.skipped_why
    Job.objects.update(tick=nth(schedule, -5))
    Schedule.objects.update(last_tick=None, next_tick=DatabaseNow())
    [job] = tick(again).jobs
    assert row(job)["args"] == [3, 4]


def test_134_new_settings_count_at_the_next_tick():
    schedule = a_schedule(ago=STEP + HALF)
    Schedule.objects.update(args=[8, 9], options={"queue": "other"})
    [job] = tick(schedule).jobs
    assert (row(job)["args"], row(job)["queue"]) == ([8, 9], "other")


@pytest.mark.django_db(transaction=True)
def test_a_run_by_hand_sits_out_passing_trouble():
    a_schedule(ago=STEP + HALF)
    with failing(deadlock, match="INSERT INTO", times=1) as refused:
        [(job, outcome)] = Schedule.objects.filter(name="s").run_now()
    assert refused and outcome == "added"
    assert read(Schedule.objects.get()).last_job == job.pk


@pytest.mark.django_db(transaction=True)
def test_passing_trouble_is_sat_out():
    schedule = a_schedule(ago=STEP + HALF)
    with failing(deadlock, match="leasequeue_job", times=1):
        assert len(tick(schedule).jobs) == 1
    assert Job.objects.count() == 1 and read(schedule).fired == 1


def test_137_delays_and_ticks_are_the_databases(monkeypatch):
    """Case 137: nobody asks the machine's own clock."""
    schedule = a_schedule(ago=STEP + HALF)
    wrong = datetime(2000, 1, 1, tzinfo=UTC)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz=None):
            return wrong

    monkeypatch.setattr(firing_tick, "datetime", Wrong)
    [job] = tick(schedule).jobs
    assert abs(row(job)["run_at"] - database_now()) < STEP
    assert row(job)["tick"] == nth(schedule, 1)


@pytest.mark.django_db(transaction=True)
def test_a_process_that_dies_between_any_two_statements_loses_nothing():
    """Neither the tick is dealt with nor is there a job, or both; the next look makes it."""
    schedule = a_schedule(ago=STEP + HALF)
    before = Schedule.objects.values().get()
    with transaction.atomic(), statements() as sent:
        tick(schedule)
        transaction.set_rollback(True)
    for passed in range(len(sent) - 1):
        with ending_after(passed), contextlib.suppress(DatabaseError):
            tick(schedule)
        if Job.objects.exists():
            break
        assert Schedule.objects.values().get() == before
    else:
        tick(schedule)
    assert passed >= 2
    assert ticks() == [nth(schedule, 1)] == [read(schedule).last_tick]
    assert tick(schedule) is None


@pytest.mark.parametrize("use_tz", [True, False])
def test_125_times_are_the_same_without_use_tz(settings, use_tz):
    """Case 125: in whatever zone the project is."""
    settings.USE_TZ, settings.TIME_ZONE = use_tz, "Asia/Kathmandu"
    rule = cron("0 * * * *", tz="Asia/Kolkata", args=[1, 2])
    schedule = a_schedule(rule, ago=2 * STEP)
    [job] = tick(schedule).jobs
    found = row(job)["tick"]
    assert (found.minute, found.utcoffset()) == (30, timedelta(0))
    assert read(schedule).next_tick - found == STEP


def test_state():
    schedule = a_schedule(ago=HALF + SECOND)
    assert schedule.state == "active"
    schedule.problem = "x"
    assert schedule.state == "broken"
    schedule.enabled = False
    assert schedule.state == "disabled"
