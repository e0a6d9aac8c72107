"""One thing that happened to a job: a kind for machines, words for people, and its facts."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django_leasequeue.times import with_isoformat


class Kind(StrEnum):
    """What there is to tell. docs/operations.md has a table of them, with their data."""

    DISPATCHED = "dispatched"
    SUPPRESSED = "suppressed"
    DUE = "due"
    CLAIMED = "claimed"
    MORE_CLAIMS = "more_claims"
    STEP = "step"
    MORE_STEPS = "more_steps"
    PROGRESS = "progress"
    ATTEMPT_FAILED = "attempt_failed"
    WORKER_LOST = "worker_lost"
    RELEASED = "released"
    MADE_DUE = "made_due"
    RETRIED = "retried"
    RERUN_ASKED = "rerun_asked"
    CANCEL_REQUESTED = "cancel_requested"
    SUPERSEDED = "superseded"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LEASE_ENDS = "lease_ends"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `at`: an aware datetime, None where that was not kept.

    `words`: a sentence. `detail`: what does not fit into one, such as a traceback. `data`:
    the facts by name; instants are aware datetimes.
    """

    at: datetime | None
    kind: Kind
    words: str
    detail: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.words

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON, instants as ISO 8601."""
        return {
            "at": None if self.at is None else self.at.isoformat(),
            "kind": self.kind.value,
            "words": self.words,
            "detail": self.detail,
            "data": with_isoformat(self.data),
        }


def instant(text: Any) -> datetime | None:
    """Return the time of an entry of JSON, None if that is none with a zone."""
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return None if at.utcoffset() is None else at
