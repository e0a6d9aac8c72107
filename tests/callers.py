"""Callers: threads with a connection of their own whose transactions a test drives step by step."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

from django.db import connection, connections, transaction

from tests.helpers import DEADLINE, eventually, new_connection


@contextlib.contextmanager
def caller(*, isolation=None, **session):
    """Yield a Caller. Its transaction, if still open at the end of the block, is rolled back.

    `isolation`: the level of its transactions, such as "REPEATABLE READ"; on SQLite
    "DEFERRED" or "IMMEDIATE". `session`: other settings of its session on a server.
    """
    one = Caller()
    try:
        one.do(lambda: _prepare(isolation, session))
        yield one
    finally:
        one.close()


class Caller:
    """Does what it is told in a thread of its own."""

    def __init__(self):
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="caller")
        self._block = None
        self._backend = None
        # The statements that it has begun to send, in order.
        self.sent = []

    def start(self, function, *args, **options):
        """Let it call a function; returns the Future at once."""
        return self._thread.submit(self._call, function, *args, **options)

    def do(self, function, *args, **options):
        """Let it call a function, and return the result or raise the error."""
        return self.start(function, *args, **options).result(DEADLINE)

    def begin(self):
        """Enter an atomic block, which lasts until commit() or rollback()."""
        self.do(self._begin)

    def commit(self):
        self.start_commit().result(DEADLINE)

    def start_commit(self):
        """Let it commit, which callbacks may hold up; returns the Future at once."""
        return self.start(self._end, None)

    def rollback(self):
        self.do(self._end, ZeroDivisionError())

    def wait_until_sent(self, text):
        """Return once it has begun a statement that contains `text`."""
        eventually(lambda: any(text in sql for sql in list(self.sent)))

    def wait_until_blocked(self):
        """Return once the server says that it waits for a lock."""
        # MySQL and MariaDB look anew only if nobody has asked for a tenth of a second.
        eventually(self._is_blocked, interval=0.25)

    def close(self):
        """Roll back what is open, and end the thread."""
        try:
            self._thread.submit(self._close).result(DEADLINE)
        finally:
            self._thread.shutdown(wait=False)

    def _call(self, function, *args, **options):
        def wrapper(execute, sql, params, many, context):
            self.sent.append(sql)
            return execute(sql, params, many, context)

        with connection.execute_wrapper(wrapper):
            self._backend = _backend_id()
            return function(*args, **options)

    def _begin(self):
        self._block = transaction.atomic()
        self._block.__enter__()

    def _end(self, error):
        block, self._block = self._block, None
        block.__exit__(type(error) if error else None, error, None)

    def _close(self):
        try:
            if self._block is not None:
                self._end(ZeroDivisionError())
        finally:
            connections.close_all()

    def _is_blocked(self):
        with new_connection() as watcher, watcher.cursor() as cursor:
            if watcher.vendor == "postgresql":
                statement = (
                    "SELECT 1 FROM pg_stat_activity WHERE pid = %s "
                    "AND wait_event_type = 'Lock'"
                )
            else:
                statement = (
                    "SELECT 1 FROM information_schema.innodb_trx "
                    "WHERE trx_mysql_thread_id = %s AND trx_state = 'LOCK WAIT'"
                )
            cursor.execute(statement, [self._backend])
            return cursor.fetchone() is not None


def _prepare(isolation, session):
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        if isolation:
            connection.transaction_mode = isolation
        return
    with connection.cursor() as cursor:
        for name, value in session.items():
            cursor.execute(f"SET SESSION {name} = {value}")
        if isolation and connection.vendor == "postgresql":
            cursor.execute(
                "SET SESSION CHARACTERISTICS AS TRANSACTION "
                f"ISOLATION LEVEL {isolation}"
            )
        elif isolation:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")


def _backend_id():
    connection.ensure_connection()
    if connection.vendor == "postgresql":
        return connection.connection.info.backend_pid
    if connection.vendor == "mysql":
        return connection.connection.thread_id()
    return None
