"""What a database error means, and running again what it lets run again."""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from django.db import Error, InterfaceError, OperationalError, models, transaction

from django_leasequeue import clock

# Deadlock victim, which Galera tells at COMMIT and ROLLBACK too, lock wait ended, row changed
# under the snapshot (MariaDB 10.6.18 and later with innodb_snapshot_isolation).
_MYSQL_PASSING = {1213, 1205, 1020}
# The wait for a lock ended, or NOWAIT found it taken: only the statement was rolled back.
_MYSQL_LOCK_WAIT = {1205, 3572}
# serialization_failure, deadlock_detected, lock_not_available
_POSTGRES_PASSING = {"40001", "40P01", "55P03"}
_POSTGRES_LOCK_WAIT = "55P03"
# Server gone, lost connection while reading, connection refused, server shutting down,
# killed by an administrator, idle too long (MySQL 8 and MariaDB); and a COMMIT during which a
# node of Galera lost the others.
_MYSQL_LOST = {2002, 2003, 2006, 2013, 2055, 1053, 1927, 4031, 1180}
# The file, or a table of it where connections share a cache (SQLITE_BUSY, SQLITE_LOCKED).
_SQLITE_PASSING = ("database is locked", "database table is locked")
# A node of Galera that is cut off from the others, or does not have all data yet, carries out
# no statement.
_MYSQL_NOT_READY = 1047
# Read-only by an option, by the transaction's mode or by the server's own mode; disk full,
# table full.
_MYSQL_UNWRITABLE = {1290, 1792, 1836, 1021, 1114, _MYSQL_NOT_READY}
# read_only_sql_transaction, disk_full
_POSTGRES_UNWRITABLE = {"25006", "53100"}
_SQLITE_UNWRITABLE = ("attempt to write a readonly", "database or disk is full")
# Unknown table, unknown column.
_MYSQL_UNMIGRATED = {1146, 1054}
# undefined_table, undefined_column
_POSTGRES_UNMIGRATED = {"42P01", "42703"}
_SQLITE_UNMIGRATED = ("no such table", "no such column", "has no column named")
# A unique key already holds the value; the message names the key.
_MYSQL_DUPLICATE = 1062
_POSTGRES_LOST_CLASS = "08"
# admin_shutdown, crash_shutdown, cannot_connect_now, idle_in_transaction_session_timeout
_POSTGRES_LOST = {"57P01", "57P02", "57P03", "25P03"}

T = TypeVar("T")


def is_passing_trouble(error: BaseException, connection: Any) -> bool:
    """Whether the statement was definitely rolled back and may simply be run again."""
    cause = error.__cause__
    if connection.vendor == "mysql":
        return _mysql_number(error) in _MYSQL_PASSING
    if connection.vendor == "postgresql":
        return getattr(cause, "sqlstate", None) in _POSTGRES_PASSING
    return isinstance(error, OperationalError) and str(error).startswith(
        _SQLITE_PASSING
    )


def is_lock_wait(error: BaseException, connection: Any) -> bool:
    """Whether a statement gave up waiting for a lock; the transaction it was in goes on."""
    if connection.vendor == "mysql":
        return _mysql_number(error) in _MYSQL_LOCK_WAIT
    if connection.vendor == "postgresql":
        return getattr(error.__cause__, "sqlstate", None) == _POSTGRES_LOCK_WAIT
    return False


def in_transaction(connection: Any) -> bool:
    """Whether statements belong to somebody's transaction: atomic(), or autocommit turned off."""
    return connection.in_atomic_block or not connection.get_autocommit()


def is_connection_lost(error: BaseException, connection: Any) -> bool:
    """Whether the connection is gone, so that it is unknown what became of the statement."""
    if connection.vendor == "mysql":
        return isinstance(error, InterfaceError) or _mysql_number(error) in _MYSQL_LOST
    if connection.vendor == "postgresql":
        state = getattr(error.__cause__, "sqlstate", None)
        if state is None:
            # psycopg has no code for a socket that broke or never opened.
            return isinstance(error, (InterfaceError, OperationalError))
        return state in _POSTGRES_LOST or state.startswith(_POSTGRES_LOST_CLASS)
    return False


def is_unwritable(error: BaseException, connection: Any) -> bool:
    """Whether the server takes no writes now, whatever they are: read-only, or full."""
    if connection.vendor == "mysql":
        return _mysql_number(error) in _MYSQL_UNWRITABLE
    if connection.vendor == "postgresql":
        return getattr(error.__cause__, "sqlstate", None) in _POSTGRES_UNWRITABLE
    return isinstance(error, OperationalError) and str(error).startswith(
        _SQLITE_UNWRITABLE
    )


def may_run_again(error: BaseException, connection: Any) -> bool:
    """Whether nothing is left of the statement, and it may get through in a moment."""
    if connection.vendor == "mysql" and _mysql_number(error) == _MYSQL_NOT_READY:
        return True
    return is_passing_trouble(error, connection)


def is_unmigrated(error: BaseException, connection: Any) -> bool:
    """Whether a table or a column is missing that the statement names."""
    if connection.vendor == "mysql":
        return _mysql_number(error) in _MYSQL_UNMIGRATED
    if connection.vendor == "postgresql":
        return getattr(error.__cause__, "sqlstate", None) in _POSTGRES_UNMIGRATED
    return isinstance(error, OperationalError) and any(
        words in str(error) for words in _SQLITE_UNMIGRATED
    )


@contextmanager
def saying_what_to_migrate(rows: models.QuerySet[Any]) -> Iterator[None]:
    """Add what is to be done to an error that says that the tables are not this version's."""
    try:
        yield
    except Error as error:
        if is_unmigrated(error, transaction.get_connection(rows.db)):
            label = rows.model._meta.app_label
            note = (
                f"The tables of the queue in database {rows.db!r} are missing or not those "
                f"of this version: run 'manage.py migrate {label} --database {rows.db}'."
            )
            # One such block may be in another.
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
        raise


def is_violation(
    error: BaseException, constraint: models.UniqueConstraint, model: type[models.Model]
) -> bool:
    """Whether an IntegrityError is about this unique constraint and no other."""
    cause = error.__cause__
    diagnosis = getattr(cause, "diag", None)
    if diagnosis is not None:
        return diagnosis.constraint_name == constraint.name
    if _mysql_number(error) is not None:
        # "Duplicate entry '…' for key 'table.name'" (MySQL) or "'name'" (MariaDB), in any of
        # the server's languages. The entry comes first and may hold anything, so only what
        # is quoted last counts.
        last = re.search(r"'([^']*)'[^']*$", str(error.args[-1]))
        return (
            _mysql_number(error) == _MYSQL_DUPLICATE
            and last is not None
            and last[1].rpartition(".")[2] == constraint.name
        )
    field_of = cast(Callable[[str], Any], model._meta.get_field)
    columns = ", ".join(
        f"{model._meta.db_table}.{field_of(name).column}" for name in constraint.fields
    )
    return str(error) == f"UNIQUE constraint failed: {columns}"


def is_sequence_behind(error: BaseException, model: type[models.Model]) -> bool:
    """Whether an id that the database gave out itself was taken already (PostgreSQL).

    So it is after a restore that filled the table and left the sequence where it was.
    """
    diagnosis = getattr(error.__cause__, "diag", None)
    name = getattr(diagnosis, "constraint_name", None)
    return name is not None and name == f"{model._meta.db_table}_pkey"


def _mysql_number(error: BaseException) -> int | None:
    args = getattr(error, "args", ())
    return args[0] if args and isinstance(args[0], int) else None


def rerun(
    function: Callable[[], T],
    *,
    using: str,
    seconds: float,
    again: Callable[[BaseException, Any], bool] = may_run_again,
) -> T:
    """Call `function` until it gets through passing trouble, for `seconds` at the most.

    Inside somebody's transaction it is called once: there the database has already rolled
    back more than this function did.

    `again(error, connection)` says which errors are worth another call. Returns what
    `function` returns. Raises the last error once the time is over, and any other at once.
    """
    connection = transaction.get_connection(using)
    deadline = clock.now() + seconds
    pause = 0.005  # a deadlock victim usually gets through at once
    while True:
        try:
            return function()
        except Error as error:
            if not again(error, connection) or in_transaction(connection):
                raise
            # Jitter keeps the same two rivals from meeting again in step.
            wait = random.uniform(pause / 2, pause)
            if clock.now() + wait > deadline:
                raise
            time.sleep(wait)
            pause = min(pause * 2, 0.5)
