"""`runjobs --in-process`: no supervisor and no children, for debuggers and Windows.

A job that ends the process or holds the interpreter is not survived here: its lease ends.
One that goes on after its timeout can't be killed: it runs to its end, and has timed out.
"""

import os
from dataclasses import replace
from uuid import UUID

from django_leasequeue import discovery, registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker import middleware
from django_leasequeue.worker.claimer import Claims
from django_leasequeue.worker.handlers import handled, stopper
from django_leasequeue.worker.heartbeat import Heartbeat, worker_name
from django_leasequeue.worker.keeper import Keeper
from django_leasequeue.worker.killed import Killed
from django_leasequeue.worker.lease_table import LeaseTable, shortest_lease, terms_of
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.loop import Loop
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.running import Running
from django_leasequeue.worker.stop import Level, Stop
from django_leasequeue.worker.wakeup import Wakeup

# Seconds to give jobs back at the end.
_GIVING_BACK = 5.0


class InProcess:
    """A worker of one process. From another thread, `stop.request()` ends it.

    `shown`: whether it has a row among the workers.
    """

    gives_back = True

    def __init__(
        self, options: WorkerOptions, progress: Progress, shown: bool = True
    ) -> None:
        self._options = replace(options, suspects="between")
        self._progress = progress
        self._wakeup = Wakeup()
        self.stop = Stop(self._wakeup.wake)
        self._running = Running()
        self._leases: LeaseTable[None] = LeaseTable(shortest_lease(options.selection))
        self.name = worker_name()
        self._heartbeat = Heartbeat(options) if shown else None
        self._keeper: Keeper[None] = Keeper(
            options.database, self._leases, self, self._heartbeat
        )

    def run(self) -> int:
        """Work until stopped or done; return how many jobs and callbacks still ran."""
        name = self.name
        with handled(stopper(self.stop)):
            discovery.autodiscover()
            middleware.loaded()
            if self._heartbeat is not None:
                self._heartbeat.enter(name, os.getpid(), registry.names())
            self._keeper.start()
            logger.info("Worker %s runs jobs in this process.", name)
            loop = Loop(
                self._options,
                name,
                self,
                self._running,
                self.stop,
                self._wakeup,
                self.claimer(),
            )
            try:
                left = self.work(loop)
            finally:
                self._keeper.give_back(None, None)
                self._keeper.close(_GIVING_BACK)
            logger.info("Worker %s has stopped: %s.", name, self.stop.why or "done")
        return left

    def work(self, loop: Loop) -> int:
        """Run the loop; return how many jobs and callbacks still ran."""
        return loop.run()

    def claimer(self) -> Claims | None:
        """Return what claims the jobs; None for whatever the options say."""
        return None

    # Leases: what the loop tells.

    def announce(self, token: UUID) -> bool:
        """See leases.Leases."""
        self._keeper.announce(token, None)
        return True

    def claimed(self, token: UUID, jobs: list[Claimed]) -> None:
        """See leases.Leases."""
        if jobs:
            self._keeper.claimed(token, terms_of(jobs))
        else:
            self._leases.unused(token)

    def started(self, job: Claimed, line: int) -> None:
        """See leases.Leases."""

    def began(self, job: Claimed, task: TaskOptions, deadline: float) -> None:
        """See leases.Leases."""

    def ended(self, job: Claimed) -> None:
        """See leases.Leases."""

    def finished(self, token: UUID, ids: list[int], word: str) -> None:
        """See leases.Leases."""
        self._leases.finished(token, ids)
        self._progress.add(word, len(ids))

    def retiring(self) -> None:
        """See leases.Leases."""

    def suspects(self) -> None:
        """See leases.Leases."""

    def idle(self) -> None:
        """See leases.Leases."""
        if self._options.drain:
            self.stop.request(Level.GRACEFUL, "nothing is due")

    # Audience: what the keeper asks and tells.

    def is_stopped(self, owner: None) -> bool:
        """See keeper.Audience."""
        return False  # or nobody would ask

    def renewed(self, owner: None, token: UUID, ids: set[int], at: float) -> None:
        """See keeper.Audience."""
        self._running.renewed(token, ids, at)

    def lost(self, owner: None, token: UUID, ids: set[int], why: str) -> None:
        """See keeper.Audience."""
        self._running.lose(token, ids, why)

    def cancelled(self, owner: None, token: UUID, ids: set[int]) -> None:
        """See keeper.Audience."""
        self._running.cancel(token, ids)

    def settled(self, owner: None, killed: Killed) -> None:
        """See keeper.Audience."""

    def given_back(self, owner: None, ids: set[int]) -> None:
        """See keeper.Audience."""
