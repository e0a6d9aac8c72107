"""The worker's own statements: none waits for ever for a server that does not answer.

Behind a broken line a driver may wait for hours: neither end is told. So the whole of a verb
is given some seconds, well below the shortest lease, and then its connection is cut. On the
server's side the session ends as soon, so that a worker whose machine has vanished does not
keep rows locked. Tasks' connections are the project's own and are left alone.
"""

import contextlib
import os
import socket
import threading
import weakref
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections
from django.db.backends.signals import connection_created

from django_leasequeue import clock, db
from django_leasequeue.selection import Selection
from django_leasequeue.worker.lease_table import shortest_lease

# Of the shortest lease; there is time for a renewal and a second one, then.
_PART = 6
_SHORTEST, _LONGEST = 1.0, 30.0
# So many times as long the server goes on by itself.
_ABANDONED = 2
# Seconds between two looks for calls that are over their time.
_LOOK_EVERY = 0.5

# In this order: the connection, whether it is cut already, and when that is due.
_Call = tuple[Any, threading.Event, float]
_calls: dict[int, _Call] = {}
_prepared: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_watching = False


class Bounded:
    """A block of statements on this thread's connection to `database`, ended after a while.

    A call that took too long fails with the error of a lost connection. Does nothing on
    SQLite, whose files answer, and in somebody's transaction.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._seconds: float | None = None
        self._used_at = clock.now()

    def __enter__(self) -> None:
        connection = connections[self._database]
        if connection.vendor == "sqlite" or connection.in_atomic_block:
            return
        if self._seconds is None:
            self._seconds = _patience()
        if connection not in _prepared:
            _prepare(connection, self._seconds)
        elif clock.now() - self._used_at > self._seconds:
            # The server may have ended it by now, see _limit_session.
            connection.close()
        _watch()
        due_at = clock.now() + self._seconds
        with _lock:
            _calls[id(self)] = connection, threading.Event(), due_at

    def __exit__(self, *_: object) -> None:
        with _lock:
            _calls.pop(id(self), None)
        self._used_at = clock.now()

    def is_away(self, error: Error) -> bool:
        """Whether the database, not what it was sent, is the likely cause of its error.

        Of what else a server says while it answers nobody knows whom it concerns.
        """
        connection = connections[self._database]
        if db.is_passing_trouble(error, connection):
            return True
        # A full disk, or a server that is read-only after a failover, refuses them all.
        if db.is_unwritable(error, connection):
            return True
        connection.close()
        return not self.answers()

    def answers(self) -> bool:
        """Whether the database answers a question now."""
        try:
            with self, connections[self._database].cursor() as cursor:
                cursor.execute("SELECT 1")
        except Error:
            return False
        return True


def longest_statement() -> float:
    """Return the seconds within which the server ends a statement whose asker has gone."""
    return _ABANDONED * _patience()


def _patience() -> float:
    try:
        lease = shortest_lease(Selection())
    except ImproperlyConfigured:
        return _LONGEST  # which the checks tell of, whose own statements these may be
    return min(max(lease / _PART, _SHORTEST), _LONGEST)


def let_go(database: str) -> None:
    """Give this thread's connection back without limits, for whatever the thread does next."""
    connection = connections[database]
    if connection in _prepared and not connection.in_atomic_block:
        del _prepared[connection]
        # Before: by its settings a connection knows whether it belongs to a pool.
        connection.close()
        connection.settings_dict = connections.settings[database]


def _prepare(connection: Any, seconds: float) -> None:
    """Have this thread's connection opened anew, with limits of its own."""
    usual = connection.settings_dict
    # The wrapper's own copy: other threads, which are the tasks', share the original.
    options = {**usual.get("OPTIONS", {})}
    # A pool is for the tasks. This one is kept, and has limits that theirs must not have.
    options.pop("pool", None)
    limits = {"connect_timeout": max(int(seconds), 2)}
    if connection.vendor == "mysql":
        # Its driver keeps the socket to itself while a statement is under way.
        limits |= {"read_timeout": int(seconds), "write_timeout": int(seconds)}
    # Before: by its settings a connection knows whether it belongs to a pool.
    connection.close()
    connection.settings_dict = {**usual, "OPTIONS": {**limits, **options}}
    connection_created.connect(_limit_session)
    _prepared[connection] = seconds


def _limit_session(connection: Any, **_: Any) -> None:
    """Tell the server how long to wait for this worker: for a lock, and in a transaction."""
    seconds = _prepared.get(connection)
    if seconds is None:
        return
    if connection.vendor == "mysql":
        sql = "SET SESSION wait_timeout = %s, innodb_lock_wait_timeout = %s"
        with connection.cursor() as cursor:
            cursor.execute(sql, [int(4 * seconds), max(int(seconds), 1)])
    elif not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        # Set by projects behind a pooler that shares sessions, as Django's docs ask for:
        # there it would become other people's.
        limits = {
            "lock_timeout": seconds,
            # The server does not notice by itself that a statement's asker has gone.
            "statement_timeout": _ABANDONED * seconds,
            "idle_in_transaction_session_timeout": _ABANDONED * seconds,
        }
        calls = [f"SET_CONFIG('{name}', %s, FALSE)" for name in limits]
        values = [f"{int(value * 1000)}ms" for value in limits.values()]
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT PG_BACKEND_PID(), {', '.join(calls)}", values)
            [pid, *_set] = cursor.fetchone()
        if db.is_own_session(connection, pid):
            db.keep_statements(connection)


def _watch() -> None:
    global _watching
    with _lock:
        if not _watching:
            name = "leasequeue-watchdog"
            threading.Thread(target=_cut_overdue, name=name, daemon=True).start()
            _watching = True


def _cut_overdue() -> None:
    pause = threading.Event()
    while True:
        pause.wait(_LOOK_EVERY)
        now = clock.now()
        with _lock:
            overdue = [call for call in _calls.values() if call[2] <= now]
        for connection, was_cut, _ in overdue:
            if not was_cut.is_set():
                was_cut.set()
                _cut(connection)


def _cut(connection: Any) -> None:
    """Shut the socket down under the thread that waits for it, which then gets an error."""
    # It may be about to be opened, or be closed by now.
    with contextlib.suppress(Exception):
        descriptor = os.dup(connection.connection.fileno())
        with socket.socket(fileno=descriptor) as line:
            line.shutdown(socket.SHUT_RDWR)
