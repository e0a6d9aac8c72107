"""Statements that PostgreSQL works out once for a session instead of each time it gets them.

To plan a look for jobs takes it ten times as long as to answer it, and half of what a claim
of one job takes is the reading of its SQL. psycopg has a statement
prepared that comes often; Django keeps it from doing so, since behind a pooler the next one
may go to another session, which knows nothing of it. So this is for sessions that are known
to be somebody's own, as the worker's are.

A plan that was made for a small table stays until the table is analyzed, though it may have
grown a thousandfold by then. It shows by taking long, and is made anew then.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from django.db import NotSupportedError

from django_leasequeue import clock

# How often a statement is sent before it is prepared, which is a round trip more.
_AFTER = 2
# Seconds after which a plan is taken for an old one; and between two that are made anew, since
# a statement may take long for other reasons: a line of many miles, a claim of many jobs.
_SLOW, _ANEW_EVERY = 0.01, 30.0
# By session, when that was last done.
_planned_anew: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
# By Django's connection, the driver's cursor for its present session.
_cursors: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def is_own_session(connection: Any, pid: int) -> bool:
    """Whether the server process `pid` is the one that the driver was connected to.

    `pid`: what the server says. Poolers tell their clients of processes of their own making.
    """
    return pid == connection.connection.info.backend_pid


def keep_statements(connection: Any) -> None:
    """Let `fetched` keep statements in this session, until the connection is closed."""
    driver = connection.connection
    if hasattr(driver, "prepare_threshold"):  # psycopg 3
        driver.prepare_threshold = _AFTER


def fetched(
    connection: Any, sql: str, params: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, which the session keeps if it may.

    Raises NotSupportedError, once a session, for a statement that returned other types before.
    """
    started = clock.now()
    connection.ensure_connection()
    driver = connection.connection
    keeps = getattr(driver, "prepare_threshold", None) is not None
    with _kept_cursor(connection) if keeps else connection.cursor() as cursor:
        try:
            cursor.execute(sql, params)
        except NotSupportedError:
            # A migration has altered a column's type since, so that other rows than were
            # promised would come back. Without a promise the next try works.
            if keeps:
                driver.prepare_threshold = None
            raise
        rows = cursor.fetchall()
    if keeps and clock.now() - started > _SLOW:
        _plan_anew(connection)
    return rows


def _plan_anew(connection: Any) -> None:
    now, driver = clock.now(), connection.connection
    if now - _planned_anew.get(driver, -_ANEW_EVERY) >= _ANEW_EVERY:
        _planned_anew[driver] = now
        with connection.cursor() as cursor:
            cursor.execute("DISCARD PLANS")


@contextlib.contextmanager
def _kept_cursor(connection: Any) -> Iterator[Any]:
    """Yield a cursor whose driver's one is opened once a session, and left open.

    To open one takes as long as to send a statement. It is not Django's own, which sends a
    text with the values in it.
    """
    cursor = _cursors.get(connection)
    if cursor is None or cursor.connection is not connection.connection:
        # Here, since it needs a driver for PostgreSQL.
        from django.db.backends.postgresql.base import ServerBindingCursor

        cursor = cast(Any, ServerBindingCursor)(connection.connection)
        _cursors[connection] = cursor
    if connection.queries_logged:
        yield connection.make_debug_cursor(cursor)
    else:
        yield connection.make_cursor(cursor)
