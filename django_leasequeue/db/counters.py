"""Counting on a row without ever queueing for it."""

import random
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import Error, transaction
from django.db.models import Model, QuerySet

from django_leasequeue import clock
from django_leasequeue.db.errors import is_lock_wait, is_passing_trouble
from django_leasequeue.db.instants import DatabaseNow
from django_leasequeue.db.locks import by_key, forced, take, write_transaction

# Rows in one transaction.
ROWS = 500

# One statement each, and one look at the row: a subquery that MySQL takes for a constant
# would wait, and one that MariaDB doesn't would read the whole table.
_INCREMENT = {
    "postgresql": """
        UPDATE {table} SET {counter} = {counter} + 1, {stamp} = {now} WHERE {pk} = (
            SELECT {pk} FROM {table} WHERE {pk} = %s FOR UPDATE SKIP LOCKED)
    """,
    "mysql": """
        UPDATE (SELECT {pk} FROM {table} WHERE {pk} = %s LIMIT 1 FOR UPDATE SKIP LOCKED) free
        STRAIGHT_JOIN {table} ON {table}.{pk} = free.{pk}
        SET {counter} = {counter} + 1, {stamp} = {now}
    """,
    "sqlite": "UPDATE {table} SET {counter} = {counter} + 1, {stamp} = {now} WHERE {pk} = %s",
}


def increment_if_free(
    rows: QuerySet[Any], pk: int, counter: str, stamp: str, seconds: float
) -> bool:
    """Add 1 to a counter of a row, and stamp it with the time, unless the row stays locked.

    Tries for so many `seconds`, without ever queueing for the lock. Returns whether it was
    done; not if the row has been removed. For use outside a transaction.
    """
    connection = transaction.get_connection(rows.db)
    statement = _increment(rows.model, connection, counter, stamp)
    deadline = clock.now() + seconds
    pause = 0.001
    while True:
        with connection.cursor() as cursor, _unhurried(connection, cursor):
            try:
                cursor.execute(statement, [pk])
                done = cursor.rowcount > 0
            except Error as error:
                if not (
                    is_lock_wait(error, connection)
                    or is_passing_trouble(error, connection)
                ):
                    raise
                done = False
        if done or clock.now() > deadline:
            return done
        if not rows.filter(pk=pk).exists():
            return False
        time.sleep(random.uniform(pause / 2, pause))
        pause = min(pause * 2, 0.02)


_increments: dict[tuple[Any, ...], str] = {}


def _increment(model: type[Model], connection: Any, counter: str, stamp: str) -> str:
    key = (model, connection.vendor, counter, stamp)
    if key not in _increments:
        now, _ = getattr(DatabaseNow(), f"as_{connection.vendor}")(None, connection)
        quote = connection.ops.quote_name
        _increments[key] = _INCREMENT[connection.vendor].format(
            table=quote(model._meta.db_table),
            pk=quote(model._meta.pk.column),
            counter=quote(counter),
            stamp=quote(stamp),
            now=now,
        )
    return _increments[key]


def update_free(
    rows: QuerySet[Any], ids: Iterable[int], columns: dict[str, Any], seconds: float
) -> None:
    """Set columns of those rows that nobody keeps locked, each once.

    Tries for so many `seconds`. For use outside a transaction.
    """
    connection = transaction.get_connection(rows.db)
    deadline = clock.now() + seconds
    left = sorted(ids)
    while left:
        some = left[:ROWS]
        try:
            with write_transaction(rows), forced(rows):
                mine = by_key(rows, some).order_by("pk")
                free = take(mine.values_list("pk", flat=True))
                by_key(rows, free).update(**columns)
        except Error as error:
            if not is_passing_trouble(error, connection):
                raise
            free = []
        left = [pk for pk in left if pk not in set(free)]
        if clock.now() > deadline:
            return
        if not free:
            # What is locked goes to the end of the line.
            left = left[ROWS:] + left[:ROWS]
            time.sleep(random.uniform(0.005, 0.02))


@contextmanager
def _unhurried(connection: Any, cursor: Any) -> Iterator[None]:
    """On SQLite, where the whole file is one lock, an error at once instead of a wait."""
    if connection.vendor != "sqlite":
        yield
        return
    cursor.execute("PRAGMA busy_timeout")
    usual = cursor.fetchone()[0]
    cursor.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        cursor.execute(f"PRAGMA busy_timeout = {usual}")
