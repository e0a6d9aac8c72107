"""When a process looks whether groups are done that jobs wait for: between its claims.

After it has stored outcomes, but not after each: while no job waits for a group, one look a
second is all that groups cost. And every few seconds in any case, for what others have ended.
"""

import random

from django_leasequeue import clock
from django_leasequeue.models import Job
from django_leasequeue.transitions.groups import Seen
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.log import counted, logger
from django_leasequeue.worker.outage import Outage

# Seconds between two looks though nothing has ended here.
_SWEEP_EVERY = 10.0
# Seconds between looks after outcomes while no job waits for a group, and while some do, which
# is also at least so many times as long as a look took.
_PAUSE, _SHORT_PAUSE, _PAUSE_FACTOR = 1.0, 0.1, 5


class GroupLooks:
    """Looks for the loop, in the loop's thread."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._bounded = Bounded(database)
        self._outage = Outage("start jobs that waited for a group", database)
        self._seen = Seen()
        # Whether outcomes were stored since the last look.
        self.has_cause = False
        # When to look for that cause, and when without any, by `clock.now()`.
        self._with_cause_at = self._sweep_at = 0.0

    def caused(self) -> None:
        """Note that outcomes were stored."""
        self.has_cause = True

    @property
    def due_in(self) -> float:
        """Seconds until the next look; 0 or less if it is due."""
        at = self._with_cause_at if self.has_cause else self._sweep_at
        return at - clock.now()

    def look(self) -> int:
        """Let the jobs start whose groups are done; return how many. Raises nothing."""
        # Before the look: what is stored during it may need another one.
        self.has_cause = False
        began = clock.now()
        try:
            with self._bounded:
                jobs = Job.objects.using(self._database)
                started, others_wait = jobs.start_after_groups(self._seen)
        except Exception as error:
            self.has_cause = True
            self._with_cause_at = began + max(_PAUSE, self._outage.failed(error))
            return 0
        self._outage.worked()
        now = clock.now()
        pause = max(_SHORT_PAUSE, _PAUSE_FACTOR * (now - began))
        self._with_cause_at = now + (pause if others_wait or started else _PAUSE)
        self._sweep_at = now + max(pause, random.uniform(0.8, 1) * _SWEEP_EVERY)
        if started:
            logger.debug("%s start: their groups are done.", counted(started, "job"))
        return started
