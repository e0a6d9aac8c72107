"""The supervisor: starts the children, renews their leases, and survives them.

It runs no task, so nothing that a task does keeps it from renewing. A child that dies is
noticed at once: its jobs are given back, and another child takes its slot. Everything
that happens (a report, a death, a signal, news from the keeper) wakes one loop in one
thread; only the keeper uses the database.

A first signal stops gracefully: children claim nothing more and leave once their jobs have
ended, at the latest after the shutdown timeout. At a second one they leave at once. Either
way the supervisor gives back what a child leaves behind, when it can run no longer.
"""

import selectors
from collections.abc import Callable
from contextlib import closing
from functools import partial
from queue import SimpleQueue
from uuid import UUID

from django_leasequeue import clock
from django_leasequeue.worker.children import ChildProcess
from django_leasequeue.worker.crew import Crew
from django_leasequeue.worker.handlers import handled, stopper
from django_leasequeue.worker.heartbeat import Heartbeat
from django_leasequeue.worker.keeper import Keeper
from django_leasequeue.worker.killed import Killed
from django_leasequeue.worker.lease_table import LeaseTable, shortest_lease
from django_leasequeue.worker.log import counted, logger, word_for
from django_leasequeue.worker.memory import MemoryWatch
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.pipes import in_chunks
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.report_handler import ReportHandler
from django_leasequeue.worker.slots import ChildSlot
from django_leasequeue.worker.stop import Level, Stop
from django_leasequeue.worker.wakeup import SelfPipe

# Seconds that a child has to end after the shutdown timeout, and when told to leave at
# once. Then it is killed: with the default timeout before Kubernetes, which allows 30 s in
# all, kills the supervisor too.
_GRACE = 2.0
_GRACE_AT_ONCE = 2.0
# Seconds to give jobs back once the last child is gone.
_GIVING_BACK = 5.0
# Seconds of the longest wait: poll() takes no more than 24 days.
_LONGEST_PAUSE = 3600.0
# A drain can't wait for children that never start: so many in a row end it.
_FAILED_STARTS = 5
# What is said more of a child that never came so far as to work.
_UNREADY = " before it could work (if it could not import the project: see above)"


class Supervisor:
    """A worker of several processes. From another thread, `stop.request()` ends it."""

    def __init__(self, options: WorkerOptions, progress: Progress) -> None:
        self._options = options
        self._wakeup = SelfPipe()
        self.stop = Stop(self._wakeup.wake)
        # Whether a drain was given up.
        self.gave_up = False
        self._stopping = Level.NO
        self._leave_at = float("inf")
        # What other threads want done in this one.
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # Runs that were killed, until a child hears of them.
        self._untold: list[Killed] = []
        self._crew = Crew(options, self._ended)
        leases: LeaseTable[ChildProcess] = LeaseTable(shortest_lease(options.selection))
        self._heartbeat = Heartbeat(options)
        self._keeper: Keeper[ChildProcess] = Keeper(
            options.database, leases, self, self._heartbeat
        )
        self._reports = ReportHandler(
            self._keeper,
            leases,
            progress,
            self._heartbeat,
            self._reload,
            self._want_aside,
            self._retire,
        )
        self._memory = MemoryWatch(options.max_memory)
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Work until stopped or done."""
        children = counted(self._crew.expected, "child", "children")
        queues, without = self._options.queues, self._options.exclude
        self._selector.register(self._wakeup.descriptor, selectors.EVENT_READ)
        # The pipe is closed once no signal is written to it.
        with (
            closing(self._wakeup),
            handled(stopper(self.stop), self._wakeup.waking),
        ):
            logger.info(
                "The worker starts, with %s, for queues %s of database %r.",
                children,
                f"{queues} without {without}" if without else queues,
                self._options.database,
            )
            self._keeper.start()
            try:
                while self._is_going():
                    self._start_due()
                    self._listen()
                    # Before any child is told to stop.
                    self._tell_killed()
                    self._look_at_drain()
                    self._crew.look_aside()
                    self._look_at_memory()
                    self._look_at_stop()
                    self._kill_overdue()
            finally:
                self._end()
        logger.info("The worker has stopped: %s.", self.stop.why or "all jobs are done")

    def _is_going(self) -> bool:
        return self._crew.expected > 0 and clock.now() < self._leave_at

    def _start_due(self) -> None:
        if self.stop.asked:
            return
        for data in self._crew.start_due():
            self._selector.register(data[1].descriptor, selectors.EVENT_READ, data)

    def _listen(self) -> None:
        """Wait for whatever comes next, and take it."""
        due_at = min(self._leave_at, self._crew.due_at(), self._memory.due_at)
        pause = max(due_at - clock.now(), 0)
        events = self._selector.select(min(pause, _LONGEST_PAUSE))
        for key, _ in events:
            if key.data is None:
                self._wakeup.clear()
                continue
            self._reports.handle(*key.data)
            if key.data[1].said_all:
                self._selector.unregister(key.fd)
        while not self._inbox.empty():
            self._inbox.get()()

    def _look_at_drain(self) -> None:
        if not self._options.drain or self.stop.asked or not self._crew.is_idle:
            return
        # One that has claimed since then has told so before: it is in its pipe by now.
        for slot, child in self._crew.children():
            self._reports.handle(slot, child)
        if self._crew.is_idle:
            self.stop.request(Level.GRACEFUL, "nothing is due")

    def _want_aside(self) -> None:
        if not self.stop.asked:
            self._crew.want_aside()

    def _look_at_memory(self) -> None:
        if self.stop.asked or self._memory.due_at > clock.now():
            return
        for slot, child in self._memory.too_large(self._crew.children()):
            # One at a time for each place: see _retire.
            if slot.retired is None and not child.was_told:
                child.was_told = True
                why = f"it uses more than {self._options.max_memory} MiB of memory"
                child.tell({"do": "retire", "why": why})

    def _retire(self, slot: ChildSlot, child: ChildProcess) -> None:
        """Start the child that follows one that claims no more, beside its last jobs."""
        child.was_told = child.is_retiring = True
        if slot.child is child and slot.retired is None and not self.stop.asked:
            slot.retire()

    def _look_at_stop(self) -> None:
        if self.stop.level is self._stopping:
            return
        self._stopping = self.stop.level
        at_once = self._stopping is Level.AT_ONCE
        wait = _GRACE_AT_ONCE if at_once else self._options.shutdown_timeout + _GRACE
        kill_at = clock.now() + wait
        self._leave_at = kill_at + _GIVING_BACK
        logger.info(
            "The worker stops%s: %s.", " at once" if at_once else "", self.stop.why
        )
        for _, child in self._crew.children():
            child.tell(
                {"do": "leave"} if at_once else {"do": "stop", "why": self.stop.why}
            )
            child.kill_at = min(kill_at, child.kill_at or kill_at)
        self._crew.start_no_more()

    def _kill_overdue(self) -> None:
        for slot, child in self._crew.children():
            if child.dies_at > clock.now():
                continue
            # What it said last may be that the run has ended.
            self._reports.handle(slot, child)
            if child.dies_at <= clock.now():
                child.kill()

    def _reload(self, path: str) -> None:
        for _, child in self._crew.children():
            if not child.was_told and not self.stop.asked:
                logger.info("Child %s starts anew: %s has changed.", child.number, path)
                child.was_told = True
                child.kill_at = clock.now() + self._options.shutdown_timeout + _GRACE
                child.tell({"do": "stop", "why": "the code has changed"})

    def _ended(self, child: ChildProcess) -> None:
        self._do(partial(self._reap, child))

    def _reap(self, child: ChildProcess) -> None:
        slot = self._crew.slot_of(child)
        self._reports.handle(slot, child)
        if child.descriptor in self._selector.get_map():
            self._selector.unregister(child.descriptor)
        pause, death, ran = 0.0, child.death, child.ran()
        if child.was_replaced:
            slot.retired = None
            slot.returning += 1
        else:
            slot.child = None
        if death is not None:
            pause = 0.0 if child.was_replaced else slot.lost(child)
            logger.error(
                "Child %s was lost: %s%s. Its jobs are given back%s.",
                child.number,
                death,
                "" if child.name else _UNREADY,
                "" if self.stop.asked else f", and the next one starts in {pause:g} s",
                extra={"worker": child.name, "child_pid": child.pid, "death": death},
            )
        child.close()
        if child.name is not None:
            self._heartbeat.leave(child.name)
        # What jobs that timed out leave of the share is known once they are settled.
        is_open = slot.share is not None and (child.overdue or slot.share == 0)
        if child.was_replaced:
            next_one = slot.child
            if next_one is not None and next_one.is_retiring and not self.stop.asked:
                slot.retire()
        elif self._options.drain or self.stop.asked or is_open or slot.is_aside:
            # What follows waits for the jobs to be given back: see ChildSlot.vacated.
            slot.pause = pause
        else:
            # One locked row must not keep the slot empty until its lease ends.
            slot.start_at = clock.now() + pause
        self._keeper.give_back(child, death, child.overdue, ran)
        dying = slot.failed_starts >= _FAILED_STARTS
        if self._options.drain and dying and not self.stop.asked:
            self.gave_up = True
            self.stop.request(Level.GRACEFUL, "its children die before they can work")

    def _killed_settled(self, child: ChildProcess, killed: Killed) -> None:
        self._reports.count(self._crew.slot_of(child), word_for(killed.outcome))
        self._untold.append(killed)

    def _tell_killed(self) -> None:
        """Have a child call what follows the runs that were killed with others."""
        if not self._untold:
            return
        for _, child in self._crew.children():
            # One that was told to stop may be past its last look at what it hears.
            if child.name and not child.was_told and not child.is_leaving:
                for killed in self._untold:
                    child.tell(killed.to_message())
                self._untold.clear()
                return

    def _given_back(self, child: ChildProcess, ids: set[int]) -> None:
        if child.death is not None and ids:
            # Some of them are to run alone now, and nobody need look for them first.
            self._want_aside()
        slot = self._crew.slot_of(child)
        if child.was_replaced:
            slot.returning -= 1
            if slot.child is not None:
                # It has yet to see what came back.
                slot.child.is_idle = False
        else:
            slot.vacated(self.stop.asked)

    def _end(self) -> None:
        if clock.now() >= self._leave_at:
            for _, child in self._crew.children():
                # It has said that it leaves, and does not. Nobody would end it any more.
                child.kill()
        if self._untold:
            logger.warning(
                "No child was left to call the callbacks of killed runs: those of %s.",
                ", ".join(str(killed.job_id) for killed in self._untold),
                extra={"job_ids": [killed.job_id for killed in self._untold]},
            )
        self._keeper.close(_GIVING_BACK)
        self._crew.close()
        self._selector.close()

    def _do(self, action: Callable[[], None]) -> None:
        self._inbox.put(action)
        self._wakeup.wake()

    # What the keeper asks and tells, in its own thread.

    def is_stopped(self, owner: ChildProcess) -> bool:
        """See keeper.Audience."""
        return owner.is_stopped()

    def renewed(
        self, owner: ChildProcess, token: UUID, ids: set[int], at: float
    ) -> None:
        """See keeper.Audience."""
        for some in in_chunks(sorted(ids)):
            owner.tell({"do": "renewed", "token": token.hex, "ids": some, "at": at})

    def lost(self, owner: ChildProcess, token: UUID, ids: set[int], why: str) -> None:
        """See keeper.Audience."""
        for some in in_chunks(sorted(ids)):
            owner.tell({"do": "lost", "token": token.hex, "ids": some, "why": why})

    def cancelled(self, owner: ChildProcess, token: UUID, ids: set[int]) -> None:
        """See keeper.Audience."""
        for some in in_chunks(sorted(ids)):
            owner.tell({"do": "cancel", "token": token.hex, "ids": some})

    def settled(self, owner: ChildProcess, killed: Killed) -> None:
        """See keeper.Audience."""
        self._do(partial(self._killed_settled, owner, killed))

    def given_back(self, owner: ChildProcess, ids: set[int]) -> None:
        """See keeper.Audience."""
        self._do(partial(self._given_back, owner, ids))
