"""Looks for jobs that wait for a slot of their concurrency key and that nobody has called."""

from django_leasequeue import clock
from django_leasequeue.managers import JobQuerySet

# Seconds between two looks while keys are in use, and otherwise: whoever ends a run calls the
# next, so that only what a worker left that died in between is found here.
_EVERY = 2.0
_SELDOM = 30.0


class Forgotten:
    """Looks now and then, a few hundred keys at a time."""

    def __init__(self) -> None:
        self._due_at = clock.now()
        self._after = ""

    def saw_keys(self) -> None:
        """Note that there are jobs with keys."""
        self._due_at = min(self._due_at, clock.now() + _EVERY)

    def look(self, jobs: JobQuerySet, *, now: bool = False) -> None:
        """Look if that is due, or `now` through all. Raises the database's errors."""
        if not now and clock.now() < self._due_at:
            return
        self._after, seen = jobs.call_forgotten("" if now else self._after)
        while now and self._after:
            self._after, seen = jobs.call_forgotten(self._after)
        self._due_at = clock.now() + (_EVERY if seen else _SELDOM)
