"""Schedules whose past is as a test wants it: the clock needs no moving."""

from datetime import timedelta

from django.db.models import QuerySet

from django_leasequeue import every, firing
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Duty, Job, Schedule
from tests import tasks  # noqa: F401, registered

SECOND = timedelta(seconds=1)
# Of most schedules here: long enough that a slow test does not get to the next tick.
STEP = timedelta(hours=1)
HALF, LONG = STEP / 2, 60 * STEP


def database_now():
    """Return the database's time."""
    made = Duty.objects.create(
        name="clock", held_until=DatabaseNow(), due_at=DatabaseNow()
    )
    found = Duty.objects.get(pk=made.pk)
    found.delete()
    return found.due_at


def a_schedule(rule=None, *, task="tests.tasks.add", ago=HALF, name="s", **columns):
    """Store a schedule that was made so long ago, and none of whose ticks is dealt with.

    `rule`: every hour unless given; with `ago=3 * STEP + HALF` three of its ticks are past.
    """
    made = database_now() - ago
    rule = rule or every(hours=1, args=[1, 2])
    values = {**rule.columns(task), "created_at": made, "since": made, **columns}
    values.setdefault("next_tick", made)
    return Schedule.objects.create(name=name, **values)


def tick(schedule):
    """Look at the schedule once, as a worker does that finds it due."""
    rows, jobs = QuerySet(Schedule, using="default"), QuerySet(Job, using="default")
    return firing.fire(rows, jobs, schedule.pk)


def tick_all(schedule):
    """Look at it until nothing is due, however many transactions its ticks take."""
    while tick(schedule) is not None:
        pass


def nth(schedule, number):
    """Return when the tick of this number is, of a schedule of hours."""
    return schedule.created_at.replace(microsecond=0) + number * STEP


def ticks():
    """Return the ticks of all jobs, in order."""
    return list(Job.objects.order_by("tick").values_list("tick", flat=True))
