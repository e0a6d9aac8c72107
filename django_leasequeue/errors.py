"""The list of errors on a job's row: what goes in, and what falls out."""

from datetime import UTC, datetime
from typing import Any

UNKNOWN_TASK = "django_leasequeue.exceptions.UnknownTask"
WORKERS_LOST = "django_leasequeue.exceptions.WorkersLost"


def errors_with(
    errors: list[dict[str, Any]], entry: dict[str, Any], cap: int
) -> list[dict[str, Any]]:
    """Return `errors` with `entry` as its newest, at most `cap` of them.

    Unknown tasks in a row become one entry with "times", so that they are counted however
    small the cap is.
    """
    if not isinstance(errors, list):
        errors = []  # broken by hand; the newest must still be told
    last = errors[-1] if errors else {}
    if entry["exception_class"] == UNKNOWN_TASK == last.get("exception_class"):
        return [*errors[:-1], {**entry, "times": last.get("times", 1) + 1}]
    return [*errors, entry][-cap:]


def describe_death(
    how: str, *, attempt: int, worker: str, at: datetime
) -> dict[str, Any]:
    """Return the entry for a worker that died or vanished while it ran the job.

    `how`: what its supervisor saw, such as "killed by SIGKILL". `at`: an aware datetime.
    """
    return {
        "exception_class": WORKERS_LOST,
        "message": f"The worker was lost: {how}.",
        "traceback": "",
        "attempt": attempt,
        "at": at.astimezone(UTC).isoformat(),
        "worker": worker,
    }
