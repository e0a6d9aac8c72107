"""Schedules in a test: what the code declares is stored, and fires as its clock is moved."""

from typing import Any

from django.db.models import QuerySet

from django_leasequeue import firing, transitions
from django_leasequeue.models import Job, Schedule
from django_leasequeue.schedules.declare import declare


class Ticks:
    """See worker.ticker. What is wrong with a schedule is raised here."""

    def __init__(self, using: str) -> None:
        declare(using, lasting=False)
        self._rows: QuerySet[Schedule] = QuerySet(Schedule, using=using)
        self._jobs: QuerySet[Job] = QuerySet(Job, using=using)

    def fire(self) -> float | None:
        """Make the jobs that are due; return the seconds until the next tick, None without."""
        while (first := self._first()) is not None:
            wait: float = (first.next_tick - first.read_at).total_seconds()
            if wait > 0:
                return wait
            firing.fire(self._rows, self._jobs, first.pk)
        return None

    def _first(self) -> Any:
        ticking = self._rows.filter(next_tick__isnull=False).order_by("next_tick", "pk")
        return transitions.schedule.read(ticking).first()
