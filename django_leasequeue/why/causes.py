"""What may keep a job from running: a kind for machines, a sentence for people, and data."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from django_leasequeue.times import with_isoformat


class Kind(StrEnum):
    """The causes there are. docs/operations.md has a table of them, with their data."""

    # The row
    GONE = "gone"
    UNKNOWN_STATUS = "unknown_status"
    # It has ended
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    # It runs, or did
    RUNNING = "running"
    CANCEL_REQUESTED = "cancel_requested"
    LEASE_PAST = "lease_past"
    # It waits for its time
    DUE_LATER = "due_later"
    RETRY_LATER = "retry_later"
    UNKNOWN_TASK = "unknown_task"
    # It waits for somebody
    READ_ONLY = "read_only"
    QUEUE_PAUSED = "queue_paused"
    NO_WORKER = "no_worker"
    NOT_TAKEN = "queue_not_taken"
    TASK_MISSING = "task_missing"
    BLOCKED = "blocked"
    AWAITS_GROUP = "awaits_group"
    RUNS_ALONE = "runs_alone"
    BEHIND = "behind"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `data`: its facts by name; instants are aware datetimes."""

    kind: Kind
    sentence: str
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.sentence

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON, instants as ISO 8601."""
        data = with_isoformat(self.data)
        return {"kind": self.kind.value, "sentence": self.sentence, "data": data}
