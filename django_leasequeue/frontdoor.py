"""What a task brings along that was not made by this package's decorator: see `backend`."""

from typing import Any, Protocol

from django_leasequeue.claimed import Claimed
from django_leasequeue.outcomes import Outcome

# What send_robust() returns: each receiver with its answer, or with what it raised.
Answers = list[tuple[Any, Any]]


class FrontDoor(Protocol):
    """What is owed to whoever enqueued a job by another interface. `using`: the job's alias."""

    def taken(self, value: Any) -> Any:
        """Return what a task returned as it is to be stored; raises UnsupportedResult."""
        ...

    def result_of(self, job: Claimed, using: str | None) -> Any:
        """Return what stands for a running job in that interface."""
        ...

    def started(self, job: Claimed, using: str | None) -> Answers:
        """Tell the receivers that the job is about to run."""
        ...

    def is_told(self, outcome: Outcome) -> bool:
        """Whether there is anything to tell once this outcome is stored."""
        ...

    def ended(self, job: Claimed, outcome: Outcome, using: str | None) -> Answers:
        """Tell the receivers that the job has ended."""
        ...
