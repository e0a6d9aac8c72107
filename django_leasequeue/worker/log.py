"""The worker's log: one line for each change of state, with the facts in `extra`."""

import contextlib
import logging
import sys
from collections.abc import MutableMapping
from typing import Any

from django_leasequeue.claimed import Claimed


class _SafeLogger(logging.LoggerAdapter):
    """A logger whose handlers may fail: a line that can't be written must not cost a job.

    logging keeps the errors of its own handlers to itself; others, such as one that writes
    into a database, may raise into whoever logs.
    """

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """See Logger.log()."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception as error:
            with contextlib.suppress(Exception):
                print(f"A line of the log is lost: {error!r}", file=sys.stderr)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Leave `extra` as it is given."""
        return msg, kwargs


logger = _SafeLogger(logging.getLogger("django_leasequeue.worker"))


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
