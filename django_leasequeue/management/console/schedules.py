"""`jobs schedules`: what is run by itself, and how far that has come."""

from argparse import ArgumentParser
from typing import Any

from django_leasequeue.management.console.common import Console, add_common
from django_leasequeue.models import Schedule
from django_leasequeue.recurrence.ticks import CRON
from django_leasequeue.times import local_time

HELP = (
    "List schedules: what each runs and when, its last and next tick, and its trouble."
)
# Schedules that are listed, by name.
MOST = 1000
_TEXTS = ("name", "task", "kind", "expression", "tz", "origin", "state", "problem")
_FACTS = ("last_tick", "next_tick", "fired", "last_job", "paused_at", "paused_by")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    add_common(parser)


def run(console: Console) -> str | None:
    """Print the list."""
    rows = Schedule.objects.using(console.database).order_by("name")
    found = list(rows.defer("args", "kwargs", "options", "former")[:MOST])
    if console.wants_json:
        names = (*_TEXTS, *_FACTS)
        console.json([{name: getattr(one, name) for name in names} for one in found])
        return None
    if not found:
        console.screen.text(
            "There is no schedule. Workers store those that tasks declare as they start, "
            "and 'manage.py syncschedules' does at once."
        )
        return None
    titles = ("schedule", "state", "when", "task", "last tick", "next tick", "jobs")
    console.screen.table(titles, map(_cells, found), {"schedule", "when", "task"})
    for one in found:
        if one.problem:
            console.screen.text(f"{one.name}: {one.problem}")
    return None


def _cells(one: Schedule) -> tuple[Any, ...]:
    when = one.expression_text
    if one.kind == CRON:
        when += f" {one.tz}"
    # The tick that a broken one fails at is past.
    ticks = (_time(one.last_tick), _time(None if one.problem else one.next_tick))
    return one.name, one.state, when, one.task, *ticks, one.fired


def _time(instant: Any) -> str | None:
    return None if instant is None else local_time(instant)
