"""The list of errors on a job's row: what goes in, and what falls out."""

from datetime import UTC, datetime
from typing import Any

WORKERS_LOST = "django_leasequeue.exceptions.WorkersLost"

Entry = dict[str, Any]


def errors_with(errors: Any, entry: Entry, cap: int) -> list[Entry]:
    """Return `errors` with `entry` as the newest, at most the `cap` newest of them.

    An entry that `repeatable` made takes the place of one of its kind right before it and
    adds up their "times", so that these are counted however small the cap is.
    """
    # Broken by hand or not: the newest must be told.
    kept = list(errors) if isinstance(errors, list) else []
    if kept and "times" in entry and _alike(kept[-1], entry):
        entry = {**entry, "times": kept.pop()["times"] + entry["times"]}
    return [*kept, entry][-cap:] if cap else []


def repeatable(entry: Entry, round: int) -> Entry:
    """Return the entry as one that is counted with those of its kind in the same round.

    For what uses up no attempt, and so needs a limit of its own: see `times_in_a_row`.
    """
    return {**entry, "round": round, "times": 1}


def times_in_a_row(errors: Any, entry: Entry) -> int:
    """Return how often a repeatable entry's kind of error came last in a row, 0 if not."""
    last = errors[-1] if isinstance(errors, list) and errors else {}
    return last["times"] if _alike(last, entry) else 0


def describe_death(
    how: str,
    *,
    attempt: int,
    worker: str,
    at: datetime,
    started_at: datetime | None = None,
) -> Entry:
    """Return the entry for a worker that died or vanished while it ran the job.

    `how`: what its supervisor saw, such as "killed by SIGKILL". `at`, and `started_at`, when
    it had claimed the job: aware datetimes.
    """
    entry: Entry = {
        "exception_class": WORKERS_LOST,
        "message": f"The worker was lost: {how}.",
        "traceback": "",
        "attempt": attempt,
        "at": at.astimezone(UTC).isoformat(),
        "worker": worker,
        "death": how,
    }
    if started_at is not None:
        entry["started_at"] = started_at.astimezone(UTC).isoformat()
    return entry


def _alike(last: Any, entry: Entry) -> bool:
    return (
        isinstance(last, dict)
        and isinstance(last.get("times"), int)
        and last.get("exception_class") == entry["exception_class"]
        and last.get("round") == entry["round"]
    )
