"""Whether anybody has written to the database, asked so cheaply that it can be asked often."""

import re
from collections.abc import Hashable
from itertools import pairwise

from django.db import connections

_STATEMENTS = re.compile(r"Questions: (\d+)")


class Marks:
    """Values that differ once somebody has written to the database `using`.

    For one thread, on its connection. SQLite: PRAGMA data_version, which leaves out what the
    connection itself writes. MySQL and MariaDB: how many statements the server has had from
    anybody, this connection included, and also such as only read; asking for it is none.
    """

    def __init__(self, using: str) -> None:
        self._connection = connections[using]
        # Whether this connection's own statements change the mark.
        self.counts_own = self._connection.vendor == "mysql"
        # MySQL counts the question itself, MariaDB does not: how often it was asked.
        self._asked = 0
        self._counted: int | None = None

    def read(self) -> Hashable | None:
        """Return the present mark; None if this database or driver has none.

        Marks of two connections are never equal. Raises the database's errors.
        """
        connection = self._connection
        # With the driver's connection itself: a number that stands for it may come again.
        if connection.vendor == "sqlite":
            if connection.connection is None:  # else it takes longer than the question
                connection.ensure_connection()
            driver = connection.connection
            return driver, driver.execute("PRAGMA data_version").fetchone()[0]
        if connection.vendor != "mysql":
            return None
        with connection.wrap_database_errors:
            connection.ensure_connection()
            # mysqlclient has it, other drivers do not.
            if not hasattr(connection.connection, "stat"):
                return None
            return connection.connection, self._statements(connection.connection)

    def _statements(self, driver) -> int | None:
        first = self._ask(driver)
        if first is None:
            return None
        if self._counted is None:
            # What others do at the time can only add to it.
            asked = [first, *(self._ask(driver) or first for _ in range(3))]
            self._counted = min(b - a for a, b in pairwise(asked))
            self._asked, first = 0, asked[-1]
        return first - self._asked * self._counted

    def _ask(self, driver) -> int | None:
        self._asked += 1
        found = _STATEMENTS.search(driver.stat())
        return int(found[1]) if found else None
