"""When a schedule fires: the words of `@task(schedule=...)` and the instants they stand for."""

from django_leasequeue.recurrence.declared import (
    LONGEST_EXPRESSION,
    LONGEST_SCHEDULE,
    Recurrence,
    cron,
    every,
)
from django_leasequeue.recurrence.due import Due, due
from django_leasequeue.recurrence.ticks import Ticks, make_ticks

__all__ = [
    "LONGEST_EXPRESSION",
    "LONGEST_SCHEDULE",
    "Due",
    "Recurrence",
    "Ticks",
    "cron",
    "due",
    "every",
    "make_ticks",
]
