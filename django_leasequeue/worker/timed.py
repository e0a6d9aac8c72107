"""Runs with a time limit, as their supervisor knows them."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

# Seconds after its deadline that a run has to stop by itself: enough for a task to clean up
# after JobTimeout, and for a child on a busy machine to say that the run has ended.
GRACE = 5.0


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One run. Its child is killed if it does not end in time."""

    token: UUID
    job_id: int
    # In seconds.
    timeout: float
    # By `clock.now()`.
    deadline: float
    # Seconds until the job is to run again if this run times out; None: it has failed.
    wait: float | None

    @classmethod
    def from_report(cls, report: dict[str, Any]) -> "TimedRun":
        """Return the run that a child reports: see Reports.began."""
        return cls(
            UUID(report["token"]),
            report["id"],
            report["timeout"],
            report["deadline"],
            report["wait"],
        )

    @property
    def kill_at(self) -> float:
        """When to kill its child, by `clock.now()`."""
        return self.deadline + GRACE
