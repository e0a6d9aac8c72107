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
from django_leasequeue.worker.seat import Seat
from django_leasequeue.worker.tally import Tally

# Seconds that a child has to end after it has said that it leaves.
_LEAVING = 5.0


class Reception:
    """Hears reports. `code_changed(path)` is called for a change that a child has seen."""

    def __init__(
        self,
        keeper: Keeper[Offspring],
        ledger: Ledger[Offspring],
        tally: Tally,
        code_changed: Callable[[str], None],
    ) -> None:
        self._keeper, self._ledger, self._tally = keeper, ledger, tally
        self._code_changed = code_changed

    def hear(self, seat: Seat, child: Offspring) -> None:
        """Take the reports that are there."""
        while messages := child.read():
            for message in messages:
                self._take(seat, child, message)

    def _take(self, seat: Seat, child: Offspring, message: Message) -> None:
        match message:
            case {"do": "announce", "token": token}:
                child.is_idle = False
                self._keeper.announce(UUID(token), child)
            case {"do": "claimed", "token": token, "jobs": jobs}:
                self._keeper.claimed(UUID(token), jobs)
            case {"do": "finished", "token": token, "id": job_id, "word": word}:
                self._ledger.finished(UUID(token), [job_id])
                self._tally.add(word)
                if seat.share is not None and word != told.RELEASED:
                    seat.share = max(seat.share - 1, 0)
            case {"do": "idle"}:
                child.is_idle = True
            case {"do": "ready", "name": name}:
                child.name = name
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
