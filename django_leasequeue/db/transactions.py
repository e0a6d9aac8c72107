"""Whether a transaction is open, as the database sees it, and one with a known isolation."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from django.db import transaction

from django_leasequeue.db.errors import in_transaction

# psycopg's transaction_status: a statement is under way, in a transaction, in one that has
# failed. 0 is idle, 4 a broken connection.
_POSTGRES_OPEN = {1, 2, 3}
# "Transaction characteristics can't be changed while a transaction is in progress"
_MYSQL_IN_PROGRESS = 1568
# "SAVEPOINT … does not exist": outside a transaction, making one does nothing.
_MYSQL_NO_SAVEPOINT = 1305
# How Django's own statements begin. None of them leaves a transaction open by itself.
_PLAIN = (
    "SELECT ",
    "INSERT ",
    "UPDATE ",
    "DELETE ",
    "SAVEPOINT ",
    "RELEASE SAVEPOINT ",
)


def tells_open_transaction(connection: Any) -> bool:
    """Whether the driver knows of an open transaction without asking the server."""
    return connection.vendor != "mysql"


def may_begin_transaction(sql: str) -> bool:
    """Whether this statement could leave a transaction open; in doubt True.

    Spares asking after plain statements where the driver can't tell.
    """
    return not sql.startswith(_PLAIN) or ";" in sql


def open_transaction(connection: Any) -> bool:
    """Whether the server has a transaction open on this connection, an aborted one included.

    By whatever means it was begun, such as a raw BEGIN. Costs up to two statements where
    the driver can't tell. Raises the driver's error if the connection is lost.
    """
    driver = connection.connection
    if driver is None:
        return False
    if connection.vendor == "postgresql":
        return int(driver.info.transaction_status) in _POSTGRES_OPEN
    if connection.vendor == "sqlite":
        return driver.in_transaction
    return _open_on_mysql(driver, connection.Database.Error)


def _open_on_mysql(driver: Any, driver_error: Any) -> bool:
    try:
        with closing(driver.cursor()) as cursor:
            if not driver.get_autocommit():
                # A savepoint would begin a transaction here. The isolation level is
                # that of the next one, if there ever is one.
                cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                return False
            cursor.execute("SAVEPOINT leasequeue_open")
            cursor.execute("RELEASE SAVEPOINT leasequeue_open")
            return True
    except driver_error as error:
        number = error.args[0] if error.args else None
        if number not in (_MYSQL_IN_PROGRESS, _MYSQL_NO_SAVEPOINT):
            raise
        return number == _MYSQL_IN_PROGRESS


def is_read_committed(connection: Any) -> bool:
    """Whether the project has the connection read the newest committed rows.

    Judged by its settings, so that it costs no statement. On PostgreSQL that takes the
    server's default for granted: what another level would refuse is run again.
    """
    connection.ensure_connection()  # which reads the level from the settings
    level = getattr(connection, "isolation_level", None)
    name = getattr(level, "name", None) or str(level)  # psycopg's is an enum
    return name.upper().replace("_", " ") == "READ COMMITTED"


@contextmanager
def read_committed(using: str) -> Iterator[None]:
    """An atomic block in which each statement sees the newest committed rows.

    Whatever the isolation level of the project or the server is. SQLite has no such level:
    there the block takes the write lock at its start, so that nothing changes under it.
    Inside somebody's transaction it is a savepoint, and the isolation stays what it was.
    """
    connection = transaction.get_connection(using)
    outermost = not in_transaction(connection)
    if outermost and connection.vendor == "sqlite":
        with _write_lock_first(connection), transaction.atomic(using=using):
            yield
        return
    if not outermost:
        with transaction.atomic(using=using):
            yield
        return
    connection.ensure_connection()
    if connection.vendor == "postgresql" and _can_begin_so(connection.connection):
        with _begun_so(connection.connection) as back, transaction.atomic(using=using):
            # Callbacks may begin transactions of their own.
            transaction.on_commit(back, using=using)
            yield
        return
    with transaction.atomic(using=using):
        # From the first statement on the level can't be changed.
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        yield


def on_commit(call: Callable[[], Any], *, using: str) -> bool:
    """Call once the transaction at hand has committed, at once without one; return whether.

    Not so in a transaction that somebody manages by hand, of whose end nobody hears. Robust:
    a caller that has committed must not lose its other callbacks.
    """
    connection = transaction.get_connection(using)
    if not connection.in_atomic_block and not connection.get_autocommit():
        return False
    transaction.on_commit(call, using=using, robust=True)
    return True


def _can_begin_so(driver: Any) -> bool:
    # psycopg 3; psycopg2 would send a statement for it.
    return hasattr(driver, "info") and hasattr(driver, "pgconn")


@contextmanager
def _begun_so(driver: Any) -> Iterator[Callable[[], None]]:
    """Have the statement that begins a transaction name the level: a round trip less.

    Yields what lets the next ones have their usual level, for when this one has ended.
    """
    usual = driver.isolation_level

    def back() -> None:
        # A connection that broke meanwhile takes it along.
        with suppress(driver.Error):
            driver.isolation_level = usual

    driver.isolation_level = 2  # psycopg's IsolationLevel.READ_COMMITTED
    try:
        yield back
    finally:
        back()


@contextmanager
def _write_lock_first(connection: Any) -> Iterator[None]:
    # Connecting reads the mode from the settings.
    connection.ensure_connection()
    usual = connection.transaction_mode
    if usual != "EXCLUSIVE":
        connection.transaction_mode = "IMMEDIATE"
    try:
        yield
    finally:
        connection.transaction_mode = usual
