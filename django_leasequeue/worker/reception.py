"""What a supervisor does with its children's reports."""

from collections.abc import Callable
from uuid import UUID

from django_leasequeue import clock
from django_leasequeue.worker import told
from django_leasequeue.worker.keeper import Keeper
from django_leasequeue.worker.ledger import Ledger
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.offspring import Offspring
from django_leasequeue.worker.pipes import Message
from django_leasequeue.worker.presence import Presence
from django_leasequeue.worker.seat import Seat
from django_leasequeue.worker.tally import Tally
from django_leasequeue.worker.timed import TimedRun

# Seconds that a child has to end after it has said that it leaves. It holds no job by then,
# so this only bounds what its own exit handlers may take.
_LEAVING = 30.0


class Reception:
    """Hears reports. `code_changed(path)` is called for a change that a child has seen."""

    def __init__(
        self,
        keeper: Keeper[Offspring],
        ledger: Ledger[Offspring],
        tally: Tally,
        presence: Presence,
        code_changed: Callable[[str], None],
    ) -> None:
        self._keeper, self._ledger, self._tally = keeper, ledger, tally
        self._presence, self._code_changed = presence, code_changed

    def hear(self, seat: Seat, child: Offspring) -> None:
        """Take the reports that are there."""
        while messages := child.read():
            for message in messages:
                self._take(seat, child, message)

    def count(self, seat: Seat, word: str) -> None:
        """Count a job of this seat that has ended; see `told` for the words."""
        self._tally.add(word)
        if seat.share is not None and word != told.RELEASED:
            seat.share = max(seat.share - 1, 0)

    def _take(self, seat: Seat, child: Offspring, message: Message) -> None:
        match message:
            case {"do": "announce", "token": token}:
                child.is_idle = False
                self._keeper.announce(UUID(token), child)
            case {"do": "claimed", "token": token, "jobs": jobs}:
                self._keeper.claimed(UUID(token), jobs)
            case {"do": "began"}:
                run = TimedRun.from_report(message)
                child.timed[run.token, run.job_id] = run
            case {"do": "ended", "token": token, "id": job_id}:
                child.timed.pop((UUID(token), job_id), None)
            case {"do": "finished", "token": token, "id": job_id, "word": word}:
                child.timed.pop((UUID(token), job_id), None)
                self._ledger.finished(UUID(token), [job_id])
                self.count(seat, word)
            case {"do": "idle"}:
                child.is_idle = True
            case {"do": "tasks", "names": names}:
                child.tasks += names
            case {"do": "ready", "name": name}:
                child.name = name
                self._presence.enter(name, child.pid, child.tasks)
                logger.info(
                    "Child %s is ready as worker %s.",
                    child.number,
                    name,
                    extra={"worker": name, "child_pid": child.pid},
                )
            case {"do": "changed", "path": path}:
                self._code_changed(path)
            case {"do": "leaving"}:
                child.is_leaving = True
                child.kill_at = clock.now() + _LEAVING
