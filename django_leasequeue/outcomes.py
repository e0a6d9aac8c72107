"""What a run yields: a value that says how it ended. `transitions.settle` writes it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The task returned. `result`: JSON text of its return value; None where it is not kept."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The job has failed for good. `error`: an entry for the job's list of errors."""

    error: dict[str, Any]
    # False where no run took place: the job was given up before its task was called.
    counted: bool = True


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The run failed and the job goes back to pending, due after `delay`.

    `counted`: whether this run is one of the job's attempts.
    """

    delay: timedelta
    error: dict[str, Any]
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The task asked to be run after `delay`; no attempt is counted."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The run stopped because the job was to be cancelled."""


@dataclass(frozen=True, slots=True)
class Released:
    """The run did not take place or was cut short: due again at once, no attempt counted.

    `lost`: whether it had begun and gave up because it had to take its lease for lost. If the
    row says otherwise, it counts as a recovery all the same: what it did stays done. `why`:
    a word for the job's events, if there is anything to tell of it.
    """

    lost: bool = False
    why: str | None = None


Outcome = Succeeded | Failed | RetryLater | Snoozed | Cancelled | Released
