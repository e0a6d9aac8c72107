"""A child's place under a supervisor: who sits there, and when the next one may start."""

from django_leasequeue import clock
from django_leasequeue.worker.offspring import Offspring

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# A child that ran for so long, in seconds, was no part of a row of instant deaths.
_STEADY = 60.0


class Seat:
    """One of the N places. `share`: how many jobs it may still start, None for any number.

    The first death is followed by a new child at once; each further one in a row doubles
    the pause before it.
    """

    def __init__(self, number: int, share: int | None) -> None:
        self.number, self.share = number, share
        self.child: Offspring | None = None
        # When to start the next child, by `clock.now()`; None while there is one, in a drain
        # while the jobs of the last one are being given back, and in the end.
        self.start_at: float | None = clock.now()
        # Seconds that a drain waits once they are given back.
        self.pause = 0.0
        self.is_done = False
        # Deaths in a row, and among them those before the child was ready for work.
        self.deaths = self.stillborn = 0

    def lost(self, child: Offspring) -> float:
        """Note that a child died by itself; return the seconds until the next one."""
        if clock.now() - child.started_at >= _STEADY:
            self.deaths = 0
        self.deaths += 1
        self.stillborn = 0 if child.name else self.stillborn + 1
        return _pause_after(self.deaths - 1)

    def failed(self) -> float:
        """Note that no child could be started; return the seconds until the next try."""
        self.deaths += 1
        self.stillborn += 1
        return _pause_after(self.deaths)

    @property
    def is_idle(self) -> bool:
        """Whether its child has found nothing to do, or there will be none any more."""
        return self.is_done or (self.child is not None and self.child.is_idle)


def _pause_after(deaths: int) -> float:
    if deaths < 1:
        return 0
    return min(_FIRST_PAUSE * 2 ** min(deaths - 1, 16), _LONGEST_PAUSE)


def shares(jobs: int | None, processes: int) -> list[int | None]:
    """Return how many jobs each child may start: even parts, never more than `jobs` in all.

    There are fewer children than `processes` if there are fewer jobs.
    """
    if jobs is None:
        return [None] * processes
    seats = min(processes, jobs)
    return [jobs // seats + (number < jobs % seats) for number in range(seats)]
