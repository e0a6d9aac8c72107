"""What a supervisor does with its children's reports."""

from collections.abc import Callable
from uuid import UUID

from django_leasequeue import clock
from django_leasequeue.worker.children import ChildProcess
from django_leasequeue.worker.heartbeat import Heartbeat
from django_leasequeue.worker.keeper import Keeper
from django_leasequeue.worker.lease_table import LeaseTable
from django_leasequeue.worker.log import RELEASED, logger
from django_leasequeue.worker.pipes import Message
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.slots import ChildSlot
from django_leasequeue.worker.timed import TimedRun

# Seconds that a child has to end after it has said that it leaves. It holds no job by then,
# so this only bounds what its own exit handlers may take.
_LEAVING = 30.0


class ReportHandler:
    """Handles reports.

    `code_changed(path)` is called for a change that a child has seen, `suspects_due()` when
    one has seen jobs that are to run alone, `retiring(slot, child)` when one is to be replaced.
    """

    def __init__(
        self,
        keeper: Keeper[ChildProcess],
        leases: LeaseTable[ChildProcess],
        progress: Progress,
        heartbeat: Heartbeat,
        code_changed: Callable[[str], None],
        suspects_due: Callable[[], None],
        retiring: Callable[[ChildSlot, ChildProcess], None],
    ) -> None:
        self._keeper, self._leases, self._progress = keeper, leases, progress
        self._heartbeat, self._code_changed = heartbeat, code_changed
        self._suspects_due, self._retiring = suspects_due, retiring

    def handle(self, slot: ChildSlot, child: ChildProcess) -> None:
        """Take the reports that are there."""
        while messages := child.read():
            for message in messages:
                self._take(slot, child, message)

    def count(self, slot: ChildSlot, word: str, number: int = 1) -> None:
        """Count jobs of this slot that have ended; see `log` for the words."""
        self._progress.add(word, number)
        if slot.share is not None and word != RELEASED:
            slot.share = max(slot.share - number, 0)

    def _take(self, slot: ChildSlot, child: ChildProcess, message: Message) -> None:
        match message:
            case {"do": "announce", "token": token}:
                child.is_idle = False
                self._keeper.announce(UUID(token), child)
            case {"do": "claimed", "token": token, "term": term, "ids": ids}:
                self._keeper.claimed(UUID(token), {tuple(term): ids})
            case {"do": "unused", "token": token}:
                self._leases.unused(UUID(token))
            case {"do": "suspects"}:
                self._suspects_due()
            case {"do": "began"}:
                run = TimedRun.from_report(message)
                child.timed[run.token, run.job_id] = run
            case {"do": "ended", "token": token, "id": job_id}:
                child.timed.pop((UUID(token), job_id), None)
            case {"do": "finished", "token": token, "ids": ids, "word": word}:
                for job_id in ids:
                    child.timed.pop((UUID(token), job_id), None)
                child.has_finished = True
                self._leases.finished(UUID(token), ids)
                self.count(slot, word, len(ids))
            case {"do": "idle"}:
                child.is_idle = True
            case {"do": "tasks", "names": names}:
                child.tasks += names
            case {"do": "ready", "name": name}:
                child.name = name
                self._heartbeat.enter(name, child.pid, child.tasks)
                logger.info(
                    "Child %s is ready as worker %s.",
                    child.number,
                    name,
                    extra={"worker": name, "child_pid": child.pid},
                )
            case {"do": "changed", "path": path}:
                self._code_changed(path)
            case {"do": "retiring"}:
                self._retiring(slot, child)
            case {"do": "leaving"}:
                child.is_leaving = True
                child.kill_at = clock.now() + _LEAVING
