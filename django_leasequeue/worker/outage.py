"""How a thread of the worker sits out trouble with the database."""

import contextlib
import logging
import random

from django.db import connections, reset_queries

from django_leasequeue import clock, db
from django_leasequeue.worker.log import counted, logger

_FIRST_PAUSE = 0.1
# Long enough to leave a server that starts up alone, short enough that work goes on within
# seconds of its return.
_LONGEST_PAUSE = 5.0
# Between two lines about the same outage, in seconds.
_LOG_EVERY = 60.0


class Outage:
    """Growing, jittered pauses while statements fail, and few lines in the log.

    `doing`: what fails, as in "Cannot … now". For one thread, whose connection it closes.
    """

    def __init__(self, doing: str, database: str) -> None:
        self.doing, self.database = doing, database
        self._failures = 0
        self._logged_at = 0.0

    def failed(self, error: Exception) -> float:
        """Note a failure; return the seconds to wait before the next try."""
        self._failures += 1
        connection = connections[self.database]
        passing = db.is_passing_trouble(error, connection)
        if passing:
            logger.debug("Could not %s this time: %s", self.doing, error)
        else:
            self._log(error)
        # A connection that is broken says so at its first use only; a new one is cheap.
        with contextlib.suppress(Exception):
            connection.close()
        pause = min(_FIRST_PAUSE * 2 ** min(self._failures - 1, 16), _LONGEST_PAUSE)
        return random.uniform(pause / 2, pause) / (10 if passing else 1)

    def worked(self) -> None:
        """Note that the statement got through."""
        # With DEBUG on, Django keeps every statement of the thread's connections.
        reset_queries()
        if self._logged_at:
            logger.warning(
                "The database answers again, after %s to %s.",
                counted(self._failures, "try", "tries"),
                self.doing,
                extra={"database": self.database},
            )
        self._failures, self._logged_at = 0, 0.0

    def _log(self, error: Exception) -> None:
        now = clock.now()
        if self._logged_at and now - self._logged_at < _LOG_EVERY:
            return
        self._logged_at = now
        logger.log(
            logging.WARNING,
            "Cannot %s now, and tries again until it works: %s: %s",
            self.doing,
            type(error).__name__,
            str(error).strip(),
            extra={"database": self.database, "failures": self._failures},
        )
