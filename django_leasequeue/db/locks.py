"""Row locks, the write lock, and what a statement sees."""

from contextlib import contextmanager
from typing import Any

from django.db import models, transaction
from django.db.models import Case, Value, When
from django.db.models.lookups import Exact


def by_key(rows, ids, **condition):
    """Return the rows of these ids that meet `condition`, found by primary key and no other way.

    InnoDB locks what it passes on its way: through an index on the condition it would lock
    index entry, then row, against the order of every other write, and other people's rows.
    """
    if transaction.get_connection(rows.db).vendor != "mysql":
        return rows.filter(pk__in=ids, **condition)
    # No index serves a CASE.
    meets = Case(When(**condition, then=Value(1)), default=Value(0))
    return rows.filter(Exact(meets, 1), pk__in=ids)


def take(rows) -> list[Any]:
    """Select rows and lock them until the transaction ends, passing over locked ones.

    Where the server can't pass over, it waits; on SQLite, which has no row locks, the
    surrounding `write_transaction` keeps everybody else out.
    """
    features = transaction.get_connection(rows.db).features
    if not features.has_select_for_update:
        return list(rows)
    return list(
        rows.select_for_update(skip_locked=features.has_select_for_update_skip_locked)
    )


def wait_for(rows) -> list[Any]:
    """Select rows and lock them until the transaction ends, waiting for whoever has them.

    `rows`: named by primary key. On SQLite an update that changes nothing takes the lock of
    the whole file first.
    """
    if transaction.get_connection(rows.db).features.has_select_for_update:
        return list(rows.order_by("pk").select_for_update())
    rows.model._base_manager.using(rows.db).filter(pk=0).update(
        claims=models.F("claims")
    )
    return list(rows.order_by("pk"))


@contextmanager
def write_transaction(rows):
    """A transaction on the rows' database that begins by taking the write lock, if there is one.

    SQLite refuses at once, whatever its busy timeout, to turn a transaction that has read
    into one that writes after somebody else wrote; so the first statement is a write.
    """
    with transaction.atomic(using=rows.db):
        connection = transaction.get_connection(rows.db)
        if not connection.features.has_select_for_update:
            rows.filter(pk=0).update(claims=models.F("claims"))
        yield


def reads_are_fresh(connection) -> bool:
    """Whether each statement sees the newest committed rows.

    False inside a transaction that reads from one snapshot.
    """
    if not connection.in_atomic_block:
        return True
    if connection.vendor == "sqlite":
        return False
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SHOW transaction_isolation")
        elif connection.mysql_is_mariadb:
            cursor.execute("SELECT @@tx_isolation")
        else:
            cursor.execute("SELECT @@transaction_isolation")
        return cursor.fetchone()[0].upper().replace("-", " ") == "READ COMMITTED"


def locking_read_is_fresh(connection) -> bool:
    """Whether a locking read sees the newest committed rows even inside a snapshot (InnoDB)."""
    return connection.vendor == "mysql"


def first_inserted_id(connection) -> int:
    """Return the first id that this connection's last multi-row INSERT made (MySQL only)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT LAST_INSERT_ID()")
        return cursor.fetchone()[0]
