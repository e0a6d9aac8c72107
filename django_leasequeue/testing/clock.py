"""A clock that a test can move: the database's, as the statements of this package read it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import connections, router

from django_leasequeue.durations import Duration, seconds
from django_leasequeue.models import Job

# What `db.DatabaseNow` is in each database's SQL, without its own delta.
_NOW = re.compile(r"STATEMENT_TIMESTAMP\(\)|UTC_TIMESTAMP\(6\)|'now'")
# By connection, of which each thread has its own.
_moving: dict[Any, "Clock"] = {}


class Clock:
    """How far a test has moved the clock of the database `using`: see moving_clock()."""

    def __init__(self, using: str) -> None:
        self.using = using
        #: How far it is ahead of the real one.
        self.ahead = timedelta(0)

    def move(self, by: Duration) -> None:
        """Let so much time go by, in seconds or as a timedelta."""
        self.ahead += timedelta(seconds=seconds(by, what="by"))

    def __call__(
        self, execute: Any, sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """Send a statement that sees the moved time: see connection.execute_wrapper()."""
        if self.ahead:
            sql = _NOW.sub(self._moved, str(sql))
        return execute(sql, params, many, context)

    def _moved(self, now: re.Match[str]) -> str:
        micros = self.ahead // timedelta(microseconds=1)
        if now[0].startswith("STATEMENT"):
            return f"({now[0]} + interval '{micros} microseconds')"
        if now[0].startswith("UTC"):
            return f"({now[0]} + INTERVAL {micros} MICROSECOND)"
        return f"{now[0]}, '{micros / 1e6:+.3f} seconds'"


@contextmanager
def moving_clock(*, using: str | None = None) -> Iterator[Clock]:
    """Yield a clock that `move(seconds)` moves on, for this thread and the length of the block.

    It is the clock of jobs alone: by it they are due, their leases end, windows of dedup ids
    are over, and their times are stored. Neither Python's clock nor the database's is
    changed. In a block within the block, it is the same clock. `using`: the jobs' alias.
    """
    alias = using or router.db_for_write(Job)
    connection = connections[alias]
    if connection in _moving:
        yield _moving[connection]
        return
    clock = _moving[connection] = Clock(alias)
    try:
        with connection.execute_wrapper(clock):
            yield clock
    finally:
        del _moving[connection]
