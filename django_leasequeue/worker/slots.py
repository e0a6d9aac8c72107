"""The places for a supervisor's children: who fills one, and when the next child may."""

import random
from dataclasses import replace

from django_leasequeue import clock
from django_leasequeue.worker.children import ChildProcess
from django_leasequeue.worker.options import WorkerOptions

# Seconds before a slot is filled again, from the second death in a row on.
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# A child that ran for so long, in seconds, was no part of a row of instant deaths.
_STEADY = 60.0


class ChildSlot:
    """One of the N places. `share`: how many jobs it may still start, None for any number.

    The first death is followed by a new child at once; each further one in a row doubles
    the pause before it.
    """

    def __init__(self, number: int, share: int | None, is_aside: bool = False) -> None:
        self.number, self.share = number, share
        # Whether it is the place for jobs that run alone, filled only while there are any;
        # and whether there are, as far as is known.
        self.is_aside, self.is_wanted = is_aside, False
        self.child: ChildProcess | None = None
        # One that claims no more and has jobs still, beside whom the next child works.
        self.retired: ChildProcess | None = None
        # How many of those are dead and have their jobs given back now.
        self.returning = 0
        # When to start the next child, by `clock.now()`; None while there is one, in a drain
        # while the jobs of the last one are being given back, and in the end.
        self.start_at: float | None = None if is_aside else clock.now()
        # Seconds that a drain waits once they are given back.
        self.pause = 0.0
        self.is_done = is_aside
        # Deaths in a row, and among them those before the child was ready for work.
        self.deaths = self.failed_starts = 0

    def want(self) -> None:
        """Have a child started in the place for jobs that run alone, if there is none."""
        self.is_wanted = True
        if self.is_done:
            self.is_done, self.start_at = False, clock.now()

    def vacated(self, is_stopping: bool) -> None:
        """Note that all that its last child left is given back."""
        if self.child is not None or self.start_at is not None:
            return  # it was taken again meanwhile
        unwanted = self.is_aside and not self.is_wanted
        # A drain comes here to go on, since it must see the jobs given back as due.
        if is_stopping or self.share == 0 or unwanted:
            self.is_done = True
        else:
            self.start_at = clock.now() + self.pause

    def options(self, of_worker: WorkerOptions) -> WorkerOptions:
        """Return the options of its next child."""
        if self.is_aside:
            # A drain's child tells when it finds nothing more, and then it is let go.
            return replace(
                of_worker,
                threads=1,
                async_tasks=1,
                suspects="only",
                drain=True,
                max_jobs=None,
            )
        fresh_for = of_worker.max_jobs and _some_of(of_worker.max_jobs)
        return replace(of_worker, stop_after=self.share, max_jobs=fresh_for)

    def retire(self) -> None:
        """Have the next child take the place of this one, which still has jobs."""
        assert self.child is not None
        self.child.was_replaced = True
        self.retired, self.child = self.child, None
        self.start_at = clock.now()

    def lost(self, child: ChildProcess) -> float:
        """Note that a child died by itself; return the seconds until the next one."""
        if clock.now() - child.started_at >= _STEADY:
            self.deaths = 0
        self.deaths += 1
        self.failed_starts = 0 if child.name else self.failed_starts + 1
        return _pause_after(self.deaths - 1)

    def failed(self) -> float:
        """Note that no child could be started; return the seconds until the next try."""
        self.deaths += 1
        self.failed_starts += 1
        return _pause_after(self.deaths)

    @property
    def is_idle(self) -> bool:
        """Whether its child has found nothing to do, or there will be none any more."""
        if self.retired is not None or self.returning:
            return False
        return self.is_done or (self.child is not None and self.child.is_idle)


def _some_of(jobs: int) -> int:
    # So that children that started together are not replaced together.
    return random.randint(max(1, jobs - jobs // 5), jobs)


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
    slots = min(processes, jobs)
    return [jobs // slots + (number < jobs % slots) for number in range(slots)]
