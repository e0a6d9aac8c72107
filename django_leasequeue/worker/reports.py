"""A child's side of the bookkeeping: its leases are renewed by the supervisor."""

from uuid import UUID

from django_leasequeue.claimed import Claimed
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker.board import Board
from django_leasequeue.worker.endings import wait_after_timeout
from django_leasequeue.worker.lease_table import terms_of
from django_leasequeue.worker.pipes import Sender, in_chunks, in_lines

# Seconds to wait for room in the pipe. It is full only if the supervisor does not read, so
# that it doesn't renew either.
_SEND_WAIT = 1.0


class Reports:
    """Tells the supervisor over a pipe, and by a board. See `leases.Leases`."""

    def __init__(self, sender: Sender, board: Board, drain: bool) -> None:
        self._sender, self._board, self._drain = sender, board, drain
        # Set when the supervisor is gone.
        self.orphaned = False

    def announce(self, token: UUID) -> bool:
        """Tell a token; False if the supervisor does not hear it now."""
        return self._sender.send({"do": "announce", "token": token.hex}, _SEND_WAIT)

    def claimed(self, token: UUID, jobs: list[Claimed]) -> None:
        """Tell what a claim returned."""
        for term, ids in terms_of(jobs).items():
            for some in in_chunks(ids):
                self._sender.send(
                    {"do": "claimed", "token": token.hex, "term": term, "ids": some}
                )
        if not jobs:
            self._sender.send({"do": "unused", "token": token.hex})

    def started(self, job: Claimed, line: int) -> None:
        """Tell that a job is about to be run."""
        self._board.write(line, job.token, job.id)

    def began(self, job: Claimed, task: TaskOptions, deadline: float) -> None:
        """Tell that a task with a timeout is about to be called.

        With it goes what is to follow if this process is killed at the timeout: the
        supervisor knows neither the task's options nor its backoff.
        """
        wait = wait_after_timeout(job, task)
        message = {
            "do": "began",
            "token": job.token.hex,
            "id": job.id,
            "timeout": task.timeout,
            "deadline": deadline,
            "wait": None if wait is None else wait.total_seconds(),
        }
        self._sender.send(message, _SEND_WAIT)

    def ended(self, job: Claimed) -> None:
        """Tell that this call is over."""
        self._sender.send({"do": "ended", "token": job.token.hex, "id": job.id})

    def finished(self, token: UUID, ids: list[int], word: str) -> None:
        """Tell that jobs are held no more."""
        for some in in_chunks(ids):
            self._sender.send(
                {"do": "finished", "token": token.hex, "ids": some, "word": word}
            )

    def idle(self) -> None:
        """Tell that this child has nothing to do, which only matters to a drain."""
        if self._drain:
            self._sender.send({"do": "idle"})

    def retiring(self) -> None:
        """Tell that another child may take the place of this one, which still has jobs."""
        self._sender.send({"do": "retiring"}, _SEND_WAIT)

    def suspects(self) -> None:
        """Tell that jobs are due which are to run alone."""
        self._sender.send({"do": "suspects"})

    def ready(self, name: str, tasks: list[str]) -> None:
        """Tell that the first claim is about to be made, and of which tasks it may be."""
        for some in in_lines(tasks):
            self._sender.send({"do": "tasks", "names": some})
        self._sender.send({"do": "ready", "name": name})

    def changed(self, path: str) -> None:
        """Tell that a file of the project's code has changed."""
        self._sender.send({"do": "changed", "path": path[-1000:]})

    def leaving(self) -> None:
        """Tell that this child ends as it was told to, whatever it leaves behind."""
        self._sender.send({"do": "leaving"}, _SEND_WAIT)

    @property
    def gives_back(self) -> bool:
        """Whether the supervisor gives back what this child leaves behind."""
        return not self.orphaned
