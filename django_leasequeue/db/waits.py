"""How long a statement waits for somebody's lock.

PostgreSQL waits for ever unless told otherwise, and a rival that never commits would hold up
its rivals for good. Telling it costs no statement of its own: what is set inside a statement
in autocommit mode ends with it, and in somebody's transaction the setting rides on the
savepoint and its release. MySQL and MariaDB wait for innodb_lock_wait_timeout (50 s unless
set), SQLite for the connection's timeout (5 s unless set).
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import models, transaction

from django_leasequeue.db.errors import in_transaction
from django_leasequeue.db.instants import DatabaseNow

# A shorter lock_timeout that the project has set stays as it is.
_SET_TIMEOUT = """
SET_CONFIG('lock_timeout', CASE
    WHEN CURRENT_SETTING('lock_timeout')::interval BETWEEN '1 ms' AND '{ms} ms'
    THEN CURRENT_SETTING('lock_timeout') ELSE '{ms}' END, TRUE)
"""


def _set_timeout(seconds: float) -> str:
    # Rounded, so that the driver mostly knows the text already.
    ms = math.ceil(seconds) * 1000 if seconds > 10 else max(1, int(seconds * 1000))
    return _SET_TIMEOUT.format(ms=ms)


class BoundedNow(DatabaseNow):
    """DatabaseNow, in a statement that waits at most so many `seconds` for a lock.

    The bound is PostgreSQL's alone, and lasts until the transaction ends.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        now, params = super().as_postgresql(compiler, connection, **options)
        bound = _set_timeout(self.seconds)
        return f"(CASE WHEN {bound} IS NOT NULL THEN {now} END)", params


class _BoundIsSet(models.Func):
    """A condition that is always met and sets the bound before its row is locked."""

    arity = 0
    conditional = True  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(output_field=models.BooleanField())

    def as_sql(self, *_: Any, **__: Any) -> Any:
        return f"({_set_timeout(self.seconds)} IS NOT NULL)", []


def waiting_at_most(rows: models.QuerySet[Any], seconds: float) -> models.QuerySet[Any]:
    """Return the rows, for an update outside a transaction that waits that long at the most."""
    if transaction.get_connection(rows.db).vendor != "postgresql":
        return rows
    return rows.filter(_BoundIsSet(seconds))


@contextmanager
def bounded_transaction(using: str, seconds: float) -> Iterator[None]:
    """An atomic block in which each statement waits at most `seconds` for a lock.

    In somebody's transaction it is a savepoint, after which the bound is what it was.
    """
    connection = transaction.get_connection(using)
    if connection.vendor != "postgresql":
        with transaction.atomic(using=using):
            yield
    elif in_transaction(connection):
        rider = _Rider(seconds)
        with connection.execute_wrapper(rider), transaction.atomic(using=using):
            yield
    else:
        with transaction.atomic(using=using), connection.cursor() as cursor:
            cursor.execute(f"SELECT {_set_timeout(seconds)}")
            yield


class _Rider:
    """Sets the bound along with the first savepoint, and takes it back with its release.

    A rollback to the savepoint takes it back by itself.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.release: str | None = None
        self.former = ""

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: str,
        params: Any,
        many: bool,
        context: Any,
    ) -> Any:
        if self.release is None and sql.startswith("SAVEPOINT "):
            self.release = f"RELEASE {sql}"
            bound = _set_timeout(self.seconds)
            bound = f"SELECT CURRENT_SETTING('lock_timeout'), {bound}"
            done = _both(execute, sql, bound, context)
            self.former = context["cursor"].fetchone()[0]
            return done
        if sql == self.release:
            former = f"SET LOCAL lock_timeout = '{self.former}'"
            return _both(execute, sql, former, context)
        return execute(sql, params, many, context)


def _both(execute: Callable[..., Any], first: str, second: str, context: Any) -> Any:
    """Send two statements in one go, as the driver does with a text without parameters."""
    if getattr(context["connection"].connection, "prepare_threshold", 0) == 0:
        # It has every text prepared, which then must be a single statement; or it is psycopg2,
        # which knows no second result.
        execute(first, None, False, context)
        return execute(second, None, False, context)
    done = execute(f"{first}; {second}", None, False, context)
    context["cursor"].nextset()
    return done
