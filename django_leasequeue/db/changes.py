"""Whether anybody has written to the database, asked so cheaply that it can be asked often."""

import os
import re
from collections.abc import Hashable
from itertools import pairwise
from typing import Any

from django.db import connections

from django_leasequeue import clock

# Seconds for which a file that was written to is asked: what was written may be committed
# later, and the time of a second write may be that of the first.
_COMMITTED_IN, _SAME_TIME = 5.0, 0.05
_STATEMENTS = re.compile(r"Questions: (\d+)")


class Marks:
    """Values that differ once somebody has written to the database `using`.

    For one thread, on its connection. SQLite: PRAGMA data_version, which leaves out what the
    connection itself writes. MySQL and MariaDB: how many statements the server has had from
    anybody, this connection included, and also such as only read; asking for it is none.
    """

    def __init__(self, using: str) -> None:
        self._connection: Any = connections[using]
        # Whether this connection's own statements change the mark.
        self.counts_own = self._connection.vendor == "mysql"
        # MySQL counts the question itself, MariaDB does not: how often it was asked.
        self._asked = 0
        self._counted: int | None = None
        # The database's file, and which one SQLite writes to: how it was last seen, and until
        # when to ask.
        self._path: str | None = None
        self._file: str | None = None
        self._written: tuple[int, int] | None = None
        self._ask_until = 0.0
        self._version: int | None = None

    def is_still(self) -> bool:
        """Whether `read()` would certainly return what it did the last time.

        By the time of a file, which costs a quarter of the question.
        """
        if self._file is None:
            return False
        try:
            status = os.stat(self._file)
        except OSError:
            return False
        written = status.st_mtime_ns, status.st_size
        if written != self._written:
            self._written, self._ask_until = written, clock.now() + _COMMITTED_IN
        return clock.now() > self._ask_until

    def read(self) -> Hashable | None:
        """Return the present mark; None if this database or driver has none.

        Marks of two connections are never equal. Raises the database's errors.
        """
        connection = self._connection
        # With the driver's connection itself: a number that stands for it may come again.
        if connection.vendor == "sqlite":
            if connection.connection is None:  # else it takes longer than the question
                connection.ensure_connection()
            return connection.connection, self._data_version(connection.connection)
        if connection.vendor != "mysql":
            return None
        with connection.wrap_database_errors:
            connection.ensure_connection()
            # mysqlclient has it, other drivers do not.
            if not hasattr(connection.connection, "stat"):
                return None
            return connection.connection, self._statements(connection.connection)

    def _data_version(self, driver: Any) -> int:
        (version,) = driver.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version, self._ask_until = version, clock.now() + _SAME_TIME
        if self._path is None:
            # "" if it is none of the disk's.
            self._path = driver.execute("PRAGMA database_list").fetchone()[2]
        log = f"{self._path}-wal"
        self._file = log if os.path.exists(log) else self._path or None
        return version

    def _statements(self, driver: Any) -> int | None:
        first = self._ask(driver)
        if first is None:
            return None
        if self._counted is None:
            # What others do at the time can only add to it: between each two on a busy server.
            asked = [first, *(self._ask(driver) or first for _ in range(3))]
            most = 0 if self._connection.mysql_is_mariadb else 1
            self._counted = min(most, *(b - a for a, b in pairwise(asked)))
            self._asked, first = 0, asked[-1]
        return first - self._asked * self._counted

    def _ask(self, driver: Any) -> int | None:
        self._asked += 1
        found = _STATEMENTS.search(driver.stat())
        return int(found[1]) if found else None
