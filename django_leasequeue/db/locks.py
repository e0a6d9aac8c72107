"""Row locks, the write lock, and what a statement sees."""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import DatabaseError, models, transaction
from django.db.models import Case, Q, Value, When
from django.db.models.lookups import Exact, Lookup

from django_leasequeue import clock
from django_leasequeue.db.errors import in_transaction, is_lock_wait
from django_leasequeue.db.given import GivenKeys
from django_leasequeue.db.transactions import is_read_committed, read_committed

# Seconds for which a lock is asked for without queueing, where one that was queued for can't
# be given back. Claims and settles are over long before; what lasts longer is a slow caller
# or a deadlock, and both are for the server to sort out. PostgreSQL, too, looks for a
# deadlock after a second.
UNQUEUED = 1.0


def by_key(
    rows: models.QuerySet[Any], ids: Iterable[int] | GivenKeys, **condition: Any
) -> models.QuerySet[Any]:
    """Return the rows of these ids that meet `condition`, found by primary key and no other way.

    InnoDB locks what it passes on its way: through an index on the condition it would lock
    index entry, then row, against the order of every other write, and other people's rows.
    """
    return rows.filter(unindexed(Q(**condition), using=rows.db), _Keys(ids))


class _Keys(Lookup):
    """Whether a row's primary key is one of these integers.

    Written into the statement, see GivenKeys. A Lookup, since of any other condition Django
    asks whether it equals True, and for that no index serves.
    """

    prepare_rhs = False

    def __init__(self, ids: Iterable[int] | GivenKeys) -> None:
        keys = ids if isinstance(ids, GivenKeys) else tuple(map(int, ids))
        super().__init__(models.F("pk"), keys)

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        if not self.rhs:
            raise EmptyResultSet
        key, params = self.process_lhs(compiler, connection)
        given: list[Any] = list(params)
        if isinstance(self.rhs, GivenKeys):
            listed = self.rhs.mark
            given.append(self.rhs)
        else:
            listed = ", ".join(map(str, self.rhs))
        # A row that doesn't meet the rest of the condition InnoDB lets go of again, under READ
        # COMMITTED, unless it was named as "id = 7", which a list of one comes to.
        if connection.vendor == "mysql":
            listed = f"0, {listed}"
        return f"{key} IN ({listed})", given


def unindexed(condition: Q, *, using: str) -> Any:
    """Return the condition in a form that no index serves, so that the rest finds the rows.

    For databases whose choice of an index can't be relied on: SQLite has usually counted
    nothing, and on InnoDB a wrong one costs locks.
    """
    if not condition or transaction.get_connection(using).vendor == "postgresql":
        return condition
    return Exact(Case(When(condition, then=Value(1)), default=Value(0)), 1)


def has_row_locks(rows: models.QuerySet[Any]) -> bool:
    """Whether two can write to the table at one time; else whoever writes is alone."""
    return transaction.get_connection(rows.db).features.has_select_for_update


def take(rows: models.QuerySet[Any], through: str | None = None) -> list[Any]:
    """Select rows and lock them until the transaction ends, passing over locked ones.

    Where the server can't pass over, it waits; on SQLite, which has no row locks, the
    surrounding `write_transaction` keeps everybody else out.

    `through`: the index in whose order the rows are asked for. InnoDB locks whatever it
    reads, so that a sort would lock every candidate; and in a small table, or before it has
    counted the rows, it would rather sort.
    """
    connection = transaction.get_connection(rows.db)
    features = connection.features
    if not features.has_select_for_update:
        return list(rows)
    rows = rows.select_for_update(
        skip_locked=features.has_select_for_update_skip_locked
    )
    if through is None:
        return list(rows)
    with forced(rows, through):
        return list(rows)


@contextmanager
def forced(rows: models.QuerySet[Any], index: str = "PRIMARY") -> Iterator[None]:
    """Let selects, updates and deletes of the rows' table go through this index.

    On MySQL and MariaDB. Of a small table their planner would rather read every row, and a
    statement that locks would wait for other people's.
    """
    connection = transaction.get_connection(rows.db)
    if connection.vendor != "mysql":
        yield
        return
    with connection.execute_wrapper(partial(_force_index, rows, index)):
        yield


def _force_index(
    rows: models.QuerySet[Any],
    index: str,
    execute: Callable[..., Any],
    sql: str,
    params: Any,
    many: bool,
    context: Any,
) -> Any:
    return execute(through_index(rows, index, sql), params, many, context)


def through_index(rows: models.QuerySet[Any], index: str, sql: str) -> str:
    """Return a statement of MySQL's and MariaDB's with the hint of `forced` in it.

    If it asks for the table in subqueries of another, the hint is theirs.
    """
    connection = transaction.get_connection(rows.db)
    table = connection.ops.quote_name(rows.model._meta.db_table)
    # Django quotes the alias from 6.1 on.
    for alias in ("U0", connection.ops.quote_name("U0")):
        inside = f" FROM {table} {alias} "
        if inside in sql:
            return sql.replace(inside, f"{inside}FORCE INDEX ({index}) ")
    # Of the deletes only the form for several tables takes the hint.
    sql = sql.replace(f"DELETE FROM {table} ", f"DELETE {table} FROM {table} ", 1)
    for words in (f" FROM {table} ", f"UPDATE {table} "):
        sql = sql.replace(words, f"{words}FORCE INDEX ({index}) ", 1)
    return sql


def wait_for(rows: models.QuerySet[Any]) -> list[Any]:
    """Select rows and lock them until the transaction ends, waiting for whoever has them.

    `rows`: named by primary key. By ascending key, so that two who want several of the same
    never wait for each other. On SQLite the transaction has the write lock already.
    """
    rows = rows.order_by("pk")
    if has_row_locks(rows):
        rows = rows.select_for_update()
    with forced(rows):
        return list(rows)


def wait_for_unchanged(
    rows: models.QuerySet[Any], ids: Iterable[int], condition: Q
) -> list[Any]:
    """Lock those rows of these ids that still meet `condition`, and no others.

    Waits for whoever has them, by ascending key. Where a lock is only given back by rolling
    back to a savepoint (PostgreSQL), that is left to the caller if rows are missing.
    """
    connection = transaction.get_connection(rows.db)
    # InnoDB lets go of a row that doesn't meet the condition only if it did not queue for it.
    found = rows.filter(unindexed(condition, using=rows.db), _Keys(ids))
    if connection.vendor != "mysql":
        return wait_for(found)
    deadline = clock.now() + UNQUEUED
    pause = 0.002
    while clock.now() < deadline:
        try:
            with forced(rows):
                return list(found.select_for_update(nowait=True))
        except DatabaseError as error:
            if not is_lock_wait(error, connection):
                raise
        time.sleep(random.uniform(pause / 2, pause))
        pause = min(pause * 2, 0.05)
    return wait_for(found)


def take_write_lock(rows: models.QuerySet[Any]) -> None:
    """In a transaction on SQLite: keep everybody else out until it ends; else do nothing.

    Before anything is read: SQLite refuses at once, whatever its busy timeout, to turn a
    transaction that has read into one that writes after somebody else wrote.
    """
    if not transaction.get_connection(rows.db).features.has_select_for_update:
        rows.filter(pk=0).update(claims=models.F("claims"))


@contextmanager
def write_transaction(rows: models.QuerySet[Any]) -> Iterator[None]:
    """A transaction on the rows' database that begins by taking the write lock, if there is one.

    Elsewhere it sees and locks the newest rows and nothing but rows, whatever isolation the
    project works at: at REPEATABLE READ, InnoDB would lock the gaps between them as well,
    and hold up everybody who inserts there.
    """
    connection = transaction.get_connection(rows.db)
    if not connection.features.has_select_for_update or is_read_committed(connection):
        begin: AbstractContextManager[None] = transaction.atomic(using=rows.db)
    else:
        begin = read_committed(rows.db)
    with begin:
        take_write_lock(rows)
        yield


def reads_are_fresh(connection: Any) -> bool:
    """Whether each statement sees the newest committed rows.

    False inside a transaction that reads from one snapshot. On SQLite that is any, but one
    that has the write lock has the newest.
    """
    if connection.vendor == "sqlite" or not in_transaction(connection):
        return True
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SHOW transaction_isolation")
            # Which has no dirty reads.
            return cursor.fetchone()[0] in ("read committed", "read uncommitted")
        if connection.mysql_is_mariadb:
            cursor.execute("SELECT @@tx_isolation")
        else:
            cursor.execute("SELECT @@transaction_isolation")
        return cursor.fetchone()[0].upper().replace("-", " ") == "READ COMMITTED"


def keeps_others_out(using: str) -> bool:
    """Whether this connection is in a transaction beside which nobody else can write."""
    connection = transaction.get_connection(using)
    return connection.in_atomic_block and not connection.features.has_select_for_update


def locking_read_is_fresh(connection: Any) -> bool:
    """Whether a locking read sees the newest committed rows even inside a snapshot (InnoDB)."""
    return connection.vendor == "mysql"
