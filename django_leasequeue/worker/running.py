"""The jobs that this process holds: from their claim until their outcome is stored.

Those with callbacks stay in the table until these are over.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TYPE_CHECKING
from uuid import UUID

from django_leasequeue import clock
from django_leasequeue.claimed import Claimed
from django_leasequeue.outcomes import Outcome
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.log import about, logger

if TYPE_CHECKING:
    # It makes a Run of what it is told, and so imports this module.
    from django_leasequeue.worker.killed import Killed


@dataclass(slots=True, eq=False)
class Run:
    """One job in one claim. `task`: None if this process knows none of that name."""

    job: Claimed
    task: TaskOptions | None
    context: JobContext
    # When this process got it, and when its turn came: None while it waits for a place.
    came_at: float = field(default_factory=clock.now)
    started_at: float | None = None
    # Its line on the board, from its start until its outcome is stored: see leases.started.
    line: int | None = None
    # Whether its outcome is decided: by its end, or because the job was given back.
    closed: bool = False
    ended_at: float = 0.0
    # Whether the loss of its lease stands in the log.
    was_told: bool = False
    # Its outcome, once it is stored.
    stored: Outcome | None = None

    @property
    def is_async(self) -> bool:
        """Whether it runs in the event loop."""
        return self.task is not None and self.task.is_async

    def began_before(self, instant: float) -> bool:
        """Whether its turn came before this reading of `clock.now()`."""
        return self.started_at is not None and self.started_at < instant


class Running:
    """The table of runs. A job that is retried at once may be in it twice, by two tokens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By token, then by id: nearly all that is asked concerns one token.
        self._runs: dict[UUID, dict[int, Run]] = {}
        # Runs that were killed in another process and have their callbacks called in this
        # one, and those of them that nobody has looked at yet.
        self._killed: set[Killed] = set()
        self._arrived: deque[Killed] = deque()

    def __len__(self) -> int:
        runs = sum(len(some) for some in tuple(self._runs.values()))
        return runs + len(self._killed)

    def add_killed(self, killed: "Killed") -> None:
        """Enter a run of another process that has been killed."""
        with self._lock:
            self._killed.add(killed)
            self._arrived.append(killed)

    def take_killed(self) -> "list[Killed]":
        """Return those that have been entered since the last call."""
        taken: list[Killed] = []
        while self._arrived:
            taken.append(self._arrived.popleft())
        return taken

    def remove_killed(self, killed: "Killed") -> None:
        """Take out one of them."""
        with self._lock:
            self._killed.discard(killed)

    def add(self, runs: Iterable[Run]) -> None:
        """Enter runs."""
        with self._lock:
            for token, some in groupby(runs, _token_of):
                held = self._runs.setdefault(token, {})
                held.update((run.job.id, run) for run in some)

    def remove(self, runs: Iterable[Run]) -> None:
        """Take out runs whose outcomes are stored or refused."""
        with self._lock:
            for token, some in groupby(runs, _token_of):
                held = self._runs.get(token, {})
                for run in some:
                    held.pop(run.job.id, None)
                if not held:
                    self._runs.pop(token, None)

    def begin(self, run: Run) -> bool:
        """Note that a run's turn has come; return False if its job was given back."""
        with self._lock:
            run.started_at = clock.now()
            return not run.closed

    def close_late(self, seconds: float) -> list[Run]:
        """Decide that runs which have waited for so long are not to be; return them."""
        late_since = clock.now() - seconds
        with self._lock:
            late = [
                run
                for run in self._all()
                if run.started_at is None
                and run.came_at <= late_since
                and not run.closed
            ]
            for run in late:
                run.closed, run.ended_at = True, clock.now()
        return late

    def close(self, run: Run) -> bool:
        """Decide a run's outcome; return False if another thread was first."""
        with self._lock:
            if run.closed:
                return False
            run.closed, run.ended_at = True, clock.now()
            return True

    def unfinished(self) -> list[Run]:
        """Return the runs whose outcome is not decided."""
        with self._lock:
            return [run for run in self._all() if not run.closed]

    def renewed(self, token: UUID, ids: Iterable[int], at: float) -> None:
        """Note an acknowledged renewal, sent at `at` by `clock.now()`."""
        for run in self._of(token, ids):
            run.job.renewed_at = at

    def lose(self, token: UUID, ids: Iterable[int], why: str) -> None:
        """Tell runs that are still going that their lease is lost."""
        for run in self._of(token, ids):
            # Of one that has ended the settler learns the truth from the row.
            if not run.closed:
                run.context.lose(why)
                _log_loss(run)

    def cancel(self, token: UUID, ids: Iterable[int]) -> None:
        """Tell runs that their jobs are to be cancelled."""
        for run in self._of(token, ids):
            if not run.closed and not run.context.cancel_requested:
                run.context.cancel()
                logger.info(
                    "Job %s (%s) is to be cancelled. The run is told; if it does not look, "
                    "it goes on to its end.",
                    run.job.id,
                    run.job.task,
                    extra=about(run.job),
                )

    def lose_overdue(self) -> None:
        """Log the runs that count no more, as their contexts reckon by themselves."""
        for run in self.unfinished():
            if run.context.lease_lost:
                _log_loss(run)

    def _of(self, token: UUID, ids: Iterable[int]) -> list[Run]:
        with self._lock:
            held = self._runs.get(token, {})
            found = (held.get(job_id) for job_id in ids)
            return [run for run in found if run is not None]

    def _all(self) -> Iterator[Run]:
        return chain.from_iterable(held.values() for held in self._runs.values())


def _token_of(run: Run) -> UUID:
    return run.job.token


def _log_loss(run: Run) -> None:
    if run.was_told:
        return
    run.was_told = True
    logger.warning(
        "Job %s (%s): the lease of %s is lost: %s. The run is told, its outcome will be "
        "refused, and another worker runs the job.",
        run.job.id,
        run.job.task,
        run.job.worker,
        run.context.lost_why,
        extra=about(run.job),
    )
