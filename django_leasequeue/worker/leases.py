"""What a process that runs jobs tells whoever renews its leases.

That is the supervisor, over a pipe (see `reports`), or with --in-process a keeper in the
same process (see `inprocess`).
"""

from typing import Protocol
from uuid import UUID

from django_leasequeue.claimed import Claimed
from django_leasequeue.task_options import TaskOptions


class Leases(Protocol):
    """The worker's side of the bookkeeping."""

    def announce(self, token: UUID) -> bool:
        """Tell a token before the claim that uses it, so that no claim can be orphaned.

        Returns whether it was heard; otherwise the worker must not claim now.
        """
        ...

    def claimed(self, token: UUID, jobs: list[Claimed]) -> None:
        """Tell which jobs the claim returned; without any the token is forgotten."""

    def started(self, job: Claimed, line: int) -> None:
        """Tell that a job is about to be run: from now on a death may be its doing.

        `line`: a number below `options.most_held`, its own until its outcome is stored.
        """

    def began(self, job: Claimed, task: TaskOptions, deadline: float) -> None:
        """Tell that a task with a timeout is about to be called; `deadline`: see Limit."""

    def ended(self, job: Claimed) -> None:
        """Tell that this call is over, before anything is done with what it yielded."""

    def finished(self, token: UUID, ids: list[int], word: str) -> None:
        """Tell that jobs are held no more, and what became of their runs: see `log`."""

    def idle(self) -> None:
        """Tell that nothing runs here and that the last claim found nothing due."""

    def retiring(self) -> None:
        """Tell that this process claims no more and ends once its jobs have."""

    def suspects(self) -> None:
        """Tell that jobs are due which are to run alone, and which this process leaves."""

    @property
    def gives_back(self) -> bool:
        """Whether jobs that this process leaves behind are given back by somebody else."""
        ...
