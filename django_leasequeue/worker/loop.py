"""The worker's loop in one process.

It claims as many jobs as would start at once or very soon, until it is asked to stop or has
started as many as it may. Then it claims nothing more, and waits for what runs: until all
has ended, until the shutdown timeout, or until it is told to go at once.
"""

import time
from math import inf

from django_leasequeue import clock
from django_leasequeue.worker import bounded
from django_leasequeue.worker.claimer import Claimer, Claims
from django_leasequeue.worker.company import Company
from django_leasequeue.worker.connections import close_idle
from django_leasequeue.worker.executor import Executor
from django_leasequeue.worker.group_looks import GroupLooks
from django_leasequeue.worker.leases import Leases
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.pruner import Pruner
from django_leasequeue.worker.rest import Rest
from django_leasequeue.worker.running import Running
from django_leasequeue.worker.stop import Level, Stop
from django_leasequeue.worker.ticker import Ticker
from django_leasequeue.worker.wakeup import Wakeup

# Seconds between looks at leases that end and at jobs that do not start.
_LOOK_EVERY = 0.5
# Seconds to store the last outcomes, at a graceful stop and at one at once. What is not
# stored by then is run again.
_FLUSH = 5.0
_FLUSH_AT_ONCE = 1.0
# Seconds in which threads that wait for a job start it, since one thread runs at a time.
_OUT_OF_THE_WAY = 0.0001
# Seconds for the last step of the pruner and of the ticker; what does not end is rolled back.
_PRUNING = 1.0


class Loop:
    """Claims jobs as `worker` and has them run, in the thread that calls `run()`.

    `claimer`: what claims them, a Claimer unless given.
    """

    def __init__(
        self,
        options: WorkerOptions,
        worker: str,
        leases: Leases,
        running: Running,
        stop: Stop,
        wakeup: Wakeup,
        claimer: Claims | None = None,
    ) -> None:
        self._options, self._worker = options, worker
        self._leases, self._running = leases, running
        self._stop, self._wakeup = stop, wakeup
        self._rest = Rest(options, wakeup)
        self._left = options.stop_after
        # The same until another process takes its place.
        self._fresh_for = options.max_jobs
        # When to look at what runs and waits, by `clock.now()`.
        self._look_at = 0.0
        self._company = Company(options.suspects)
        self._claimer = claimer or Claimer(options, worker, leases, wakeup)
        self._executor = Executor(options, leases, running, stop, wakeup.wake)
        self._pruner = Pruner(options.database, worker)
        self._ticker = Ticker(options.database)
        self._groups = GroupLooks(options.database)

    def run(self) -> int:
        """Work; return how many jobs and callbacks still ran when it ended.

        They were let go, and are in the way of an orderly end of the process.
        """
        if self._options.job is None:
            # Else it works on somebody's behalf who asked for that one job alone.
            self._pruner.start()
            if not self._options.drain:
                self._ticker.start()
        try:
            while not self._stop.asked and self._left != 0 and not self._stop.retires:
                self._turn()
            self._pruner.stop()
            self._ticker.stop()
            self._tell_end()
            if self._stop.retires and not self._stop.asked:
                self._leases.retiring()
            self._claimer.close()
            self._wait()
            left = self._executor.abandon(give_back=not self._leases.gives_back)
            at_once = self._stop.level is Level.AT_ONCE
            calling = self._executor.close(_FLUSH_AT_ONCE if at_once else _FLUSH, left)
            self._look_at_groups(last=not at_once)
        finally:
            self._pruner.close(_PRUNING)
            self._ticker.close(_PRUNING)
            self._rest.close()
            bounded.let_go(self._options.database)
            close_idle()
        if left:
            logger.warning(
                "Jobs that did not end in time (%s) and are given back: %s.",
                self._stop.why,
                left,
                extra={"jobs": left},
            )
        return left + calling

    def _turn(self) -> None:
        self._look()
        self._executor.call_for_killed()
        limit = self._executor.room()
        for left in (self._left, self._fresh_for):
            limit = limit if left is None else min(limit, left)
        alone = self._company.choose(len(self._running))
        if limit < 1 or alone is None:
            self._wakeup.sleep(_LOOK_EVERY)
            return
        # Looked at before the claim: what ends after it may leave another job due.
        busy = len(self._running) > 0
        claim = self._claimer.claim(1 if alone else limit, alone)
        if claim is None:
            return
        self._company.saw(alone, claim)
        if self._company.leaves(claim):
            self._leases.suspects()
        if claim.jobs:
            self._executor.start(claim.jobs)
            self._rest.found()
            self._count(len(claim.jobs))
            if self._executor.free >= 0:
                # All of them start at once, if this thread is out of the way.
                time.sleep(_OUT_OF_THE_WAY)
            return
        if self._company.choose(len(self._running)) != alone:
            return
        if not busy and (claim.due_in is None or claim.due_in > 0):
            # A drain ends as soon as all are idle, so its look is a whole one.
            if self._options.drain and self._groups.look():
                return
            self._leases.idle()
        at_most = _LOOK_EVERY if self._running else inf
        self._rest.sleep(claim.due_in, min(at_most, max(self._groups.due_in, 0)))

    def _count(self, claimed: int) -> None:
        if self._left is not None:
            self._left = max(self._left - claimed, 0)
        if self._fresh_for is not None:
            self._fresh_for = max(self._fresh_for - claimed, 0)
            if self._fresh_for == 0:
                self._stop.retire(f"it has run {self._options.max_jobs} jobs")

    def _look(self) -> None:
        if clock.now() >= self._look_at:
            self._look_at = clock.now() + _LOOK_EVERY
            self._running.lose_overdue()
            self._executor.give_back_late()
        self._look_at_groups()

    def _look_at_groups(self, *, last: bool = False) -> None:
        if self._executor.has_stored():
            self._groups.caused()
        # Whoever asked for one job alone waits for no other.
        is_due = self._groups.due_in <= 0 and self._options.job is None
        if is_due or (last and self._groups.has_cause):
            self._groups.look()

    def _tell_end(self) -> None:
        logger.info(
            "Worker %s takes no more jobs: %s.",
            self._worker,
            self._stop.why or self._stop.retires or "it has had its share",
            extra={"worker": self._worker},
        )

    def _wait(self) -> None:
        """Wait for the jobs that run, as long as the stop allows."""
        while len(self._running) and self._stop.level is not Level.AT_ONCE:
            self._look()
            self._executor.call_for_killed()
            pause = _LOOK_EVERY
            if self._stop.asked:
                ends = self._stop.since + self._options.shutdown_timeout
                pause = min(pause, ends - clock.now())
                if pause <= 0:
                    return
            self._wakeup.sleep(pause)
