"""The worker's log: one line for each change of state, with the facts in `extra`."""

import logging
from typing import Any

from django_leasequeue.claimed import Claimed

logger = logging.getLogger("django_leasequeue.worker")


def about(job: Claimed, **more: Any) -> dict[str, Any]:
    """Return the `extra` of a line about one job."""
    return {
        "job_id": job.id,
        "task": job.task,
        "queue": job.queue,
        "worker": job.worker,
        **more,
    }


def configure(verbosity: int) -> None:
    """Write the package's log to stderr if the project has not said where it goes.

    `verbosity`: 0 shows warnings, 1 each change of state, 2 and above everything.
    """
    package = logging.getLogger("django_leasequeue")
    if package.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s [%(process)d] %(message)s")
    )
    package.addHandler(handler)
    levels = {0: logging.WARNING, 1: logging.INFO}
    package.setLevel(levels.get(verbosity, logging.DEBUG))
