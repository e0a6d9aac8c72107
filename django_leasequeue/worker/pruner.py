"""The pruner: the thread that removes old jobs, in one worker at a time.

It lives where jobs are run, since only there the tasks and their own rules are known. It
looks every minute or so whether the duty is due and free. Whoever gets it prunes the
whole table, leaving the database at least as much time between two steps as they take. It
holds no lock meanwhile but the duty's lease: if it is killed, another takes over when that
ends. Nothing that happens here is a reason for the worker to stop.
"""

import random

from django.db import connections

from django_leasequeue import clock
from django_leasequeue.models import Job
from django_leasequeue.worker.beside import Beside
from django_leasequeue.worker.duties import Turn
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.outage import Outage
from django_leasequeue.worker.tallier import Tallier

# Seconds between two looks, and between two prunes if they are short.
_LOOK_EVERY = 60.0
# A prune that takes long is followed by a pause many times as long, up to this.
_PAUSE_FACTOR = 20
_LONGEST_PAUSE = 3600.0
# Seconds after which the duty of a pruner that is gone is another's, and between renewals.
_LEASE = 60.0
_RENEW_EVERY = 10.0


class Pruner(Beside):
    """Prunes in a thread of its own, from `start()` to `close()`."""

    def __init__(self, database: str, worker: str) -> None:
        super().__init__("leasequeue-pruner")
        self._database = database
        self._turn = Turn("prune", worker, database, _LEASE)
        self._tallier = Tallier(database, worker)
        self._outage = Outage("prune", database)
        self._renew_at = self._step_began = 0.0

    def work(self) -> None:
        """See Beside."""
        # Not at once, so that workers that start together do not look together.
        while not self._stop.wait(random.uniform(_LOOK_EVERY / 2, _LOOK_EVERY)):
            # Before anything is removed that is to be counted.
            self._tallier.look()
            try:
                self._look()
            except Exception as error:
                self._outage.failed(error)
            else:
                self._outage.worked()
            finally:
                connections.close_all()

    def _look(self) -> None:
        if not self._turn.take():
            return
        began = clock.now()
        pause = _LOOK_EVERY
        try:
            self._prune()
            pause = min(
                max(pause, (clock.now() - began) * _PAUSE_FACTOR), _LONGEST_PAUSE
            )
        finally:
            self._turn.give_back(0.0 if self._stop.is_set() else pause)

    def _prune(self) -> None:
        self._step_began = clock.now()
        self._renew_at = self._step_began + _RENEW_EVERY
        jobs = Job.objects.using(self._database)
        counts = jobs.prune(after_step=self._may_go_on)
        jobs.prune_slots()
        if counts:
            logger.info(
                "Removed finished jobs: %s.",
                ", ".join(f"{n:,} {status}" for status, n in sorted(counts.items())),
                extra={"removed": dict(counts), "database": self._database},
            )

    def _may_go_on(self) -> bool:
        now = clock.now()
        if self._stop.wait(now - self._step_began):
            return False
        if now >= self._renew_at:
            self._renew_at = now + _RENEW_EVERY
            if not self._turn.keep():
                return False
        self._step_began = clock.now()
        return True
