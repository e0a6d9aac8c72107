"""The database connections of a thread around a job, kept as Django does around a request.

Before and after the job, connections that broke or are past CONN_MAX_AGE are closed. After
it, a transaction that the task left open is rolled back, however it was begun. A job that
leaves its connections alone costs no statement. On PostgreSQL and SQLite none ever does;
MySQL and MariaDB are asked after a job that sent other than plain statements.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

from django.db import Error, connections
from django.db.backends.signals import connection_created

from django_leasequeue import clock
from django_leasequeue.db import transactions
from django_leasequeue.worker import forks
from django_leasequeue.worker.log import logger

# A connection unused for so many seconds is tested by its next use: servers and firewalls
# drop idle ones, and the first job after a quiet night must not fail for that.
_IDLE = 1.0

# Of each thread, once it was looked at: its connections that are open or have been.
_thread = threading.local()

_idle_since: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()


class JobConnections:
    """This thread's connections, for the length of the `with` block around a job.

    A transaction that is open at the start is left alone, so that a job can be run inside
    one. Neither start nor end raises.
    """

    def __init__(self) -> None:
        #: Set by the end of the block: aliases on which a transaction was left open.
        self.left_open: list[str] = []
        self._distrusted = False
        self._watches: dict[Any, _Watch] = {}

    def __enter__(self) -> Self:
        forks.guard()
        for connection in _of_this_thread():
            watch = _or_drop(connection, _Watch) or _Watch(connection)
            if not watch.in_transaction and connection.connection is not None:
                _or_drop(connection, _refresh)
            if not transactions.tells_open_transaction(connection):
                connection.execute_wrappers.append(watch)
            self._watches[connection] = watch
        return self

    def distrust(self) -> None:
        """Close the connections at the end: the job may have left them in any state."""
        self._distrusted = True

    def __exit__(self, *_: object) -> None:
        for connection, watch in self._watches.items():
            with contextlib.suppress(ValueError):
                connection.execute_wrappers.remove(watch)
        for connection in _of_this_thread():
            if not _is_used(connection):
                continue
            watch = self._watches.get(connection, _NEW)
            if self._distrusted and not watch.in_transaction:
                _drop(connection)
            elif _or_drop(connection, watch.has_left_open):
                self.left_open.append(connection.alias)


def close_all() -> list[str]:
    """Close this thread's connections for good, at the end of a job that had it for itself.

    Returns the aliases on which the job had left a transaction open.
    """
    left_open = []
    for connection in connections.all(initialized_only=True):
        if not _is_used(connection):
            continue
        if _or_drop(connection, _NEW.has_left_open):
            left_open.append(connection.alias)
        _or_drop(connection, _close)
    return left_open


def close_idle() -> None:
    """Close this thread's connections, but for one on which the caller has a transaction.

    That is so if a worker is run from code that is in one, as in a test.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def _of_this_thread() -> Sequence[Any]:
    """Return this thread's connections that may be open.

    Asking Django looks at every alias, which takes longer than all else that is done around
    a job that uses none. So it is asked once, and from then on each tells that it opens.
    """
    if not hasattr(_thread, "connections"):
        _thread.connections = connections.all(initialized_only=True)
    return _thread.connections


def _remember(connection: Any, **_: Any) -> None:
    known = getattr(_thread, "connections", None)
    if known is not None and connection not in known:
        known.append(connection)


connection_created.connect(_remember)


class _Watch:
    """What a connection was like at the start.

    Where only the server knows of open transactions, it also sees as an execute wrapper
    whether the job sent anything that could begin one.
    """

    def __init__(self, connection: Any) -> None:
        self.atomic = connection.in_atomic_block
        self.blocks = len(connection.atomic_blocks)
        self.savepoints = len(connection.savepoint_ids)
        self.in_transaction = self.atomic or _is_manual(connection)
        self.suspicious = False

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: str,
        params: Any,
        many: bool,
        context: Any,
    ) -> Any:
        if transactions.may_begin_transaction(str(sql)):
            self.suspicious = True
        return execute(sql, params, many, context)

    def has_left_open(self, connection: Any) -> bool:
        """Whether the job left a transaction open; by then it is rolled back."""
        if self.in_transaction:
            return self._unwind(connection)
        if not connection.settings_dict["AUTOCOMMIT"]:
            # By the project's own choice there is always one.
            _roll_back(connection)
            return False
        if connection.in_atomic_block or self._is_open(connection):
            _roll_back(connection)
            return True
        connection.health_check_enabled = connection.settings_dict["CONN_HEALTH_CHECKS"]
        connection.close_if_unusable_or_obsolete()
        _idle_since[connection] = clock.now()
        return False

    def _is_open(self, connection: Any) -> bool:
        ask = self.suspicious or not connection.autocommit
        if ask or transactions.tells_open_transaction(connection):
            return transactions.open_transaction(connection)
        return False

    def _unwind(self, connection: Any) -> bool:
        """Take back the atomic blocks that were entered and not left, in the one around."""
        blocks, savepoints = connection.atomic_blocks, connection.savepoint_ids
        if len(blocks) <= self.blocks:
            return False
        inner = savepoints[self.savepoints :]
        del blocks[self.blocks :], savepoints[self.savepoints :]
        connection.in_atomic_block = connection.needs_rollback = self.atomic
        if inner and inner[0] is not None:
            connection.needs_rollback = False
            try:
                connection.savepoint_rollback(inner[0])
            except Error:
                connection.needs_rollback = True
        return True


class _NewWatch(_Watch):
    """Stands for a connection that the job itself was the first to use."""

    def __init__(self) -> None:
        self.in_transaction, self.suspicious = False, True


_NEW = _NewWatch()


def _is_used(connection: Any) -> bool:
    return connection.connection is not None or connection.in_atomic_block


def _is_manual(connection: Any) -> bool:
    """Whether somebody manages a transaction by hand, without an atomic block."""
    if connection.connection is None:
        return False
    if connection.autocommit != connection.settings_dict["AUTOCOMMIT"]:
        return True
    tells = transactions.tells_open_transaction(connection)
    return tells and transactions.open_transaction(connection)


def _refresh(connection: Any) -> None:
    if not connection.force_debug_cursor:
        # With DEBUG on, Django keeps every statement, and forgets them at each request.
        connection.queries_log.clear()
    connection.close_if_unusable_or_obsolete()
    if clock.now() - _idle_since.get(connection, 0) > _IDLE:
        # Django's own health check: one statement, sent only if the job uses it at all.
        connection.health_check_enabled, connection.health_check_done = True, False


def _roll_back(connection: Any) -> None:
    """Roll back and close: what else the job set on the session is as unknown."""
    driver = connection.connection
    forks.forget(connection)
    connection.connection = driver
    with contextlib.suppress(Exception):
        connection.rollback()
        connection.set_autocommit(connection.settings_dict["AUTOCOMMIT"])
    _or_drop(connection, _close)


def _close(connection: Any) -> None:
    connection.close()


def _or_drop(connection: Any, step: Callable[[Any], Any]) -> Any:
    """Return step(connection); a connection on which it fails is dropped: None."""
    try:
        return step(connection)
    except Exception as error:
        logger.debug(
            "Connection %r is dropped: %s",
            connection.alias,
            error,
            extra={"database": connection.alias},
        )
        _drop(connection)
        return None


def _drop(connection: Any) -> None:
    driver = connection.connection
    forks.forget(connection)
    with contextlib.suppress(Exception):
        driver.close()
