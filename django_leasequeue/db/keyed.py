"""Changing rows that are named by key, where they meet a condition: the write of a group.

Where an update returns its rows (PostgreSQL, SQLite) that is one statement, complete in
itself; elsewhere it is a locking read and then the update of what it locked, in one
transaction. Both are worked out once: see `given`.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from django_leasequeue.db.given import GivenKeys, Statement
from django_leasequeue.db.locks import by_key, write_transaction
from django_leasequeue.db.worked_out import (
    kind_of,
    lock_of,
    needs_no_block,
    selected,
    update_of,
)

_KEYS = GivenKeys("keys")


class RowsChanged(Exception):
    """Rows that were locked no longer meet the condition, by the clock: nothing is written."""


class KeyedUpdate:
    """`condition` and `changes`: as for filter() and update(); they may hold a `Given`.

    `columns`: what is returned of each row, the primary key first; none that is changed, and
    integers all.
    """

    def __init__(
        self,
        condition: Mapping[str, Any],
        changes: Mapping[str, Any],
        columns: Sequence[str],
    ) -> None:
        self.condition, self.changes, self.columns = condition, changes, columns
        self._known: dict[tuple[Any, ...], _Worked] = {}

    def send(
        self,
        rows: QuerySet[Any],
        keys: Sequence[int],
        given: Mapping[str, Any],
        in_block: bool,
    ) -> list[tuple[Any, ...]]:
        """Change the rows of these keys that meet the condition; return their columns.

        `given`: the values of every `Given` by name. Rows that somebody has locked are
        passed over, where the server can do that. `in_block`: whether the caller's
        transaction is there for this and may be spoilt by an error; a savepoint spares that
        of anybody else. Raises RowsChanged.
        """
        connection = transaction.get_connection(rows.db)
        kind = kind_of(rows, connection)
        if kind not in self._known:
            work_out = _in_two if connection.vendor == "mysql" else _in_one
            self._known[kind] = work_out(self, rows, connection)
        worked = self._known[kind]
        if connection.in_atomic_block:
            alone = in_block and (worked.read is None or len(keys) == 1)
        else:
            alone = worked.read is None and needs_no_block(connection)
        with contextlib.nullcontext() if alone else write_transaction(rows):
            return worked.send({**given, "keys": keys}, connection)


class _Worked(NamedTuple):
    """What is sent to one kind of database."""

    # None where the change finds and returns its rows itself.
    read: Statement | None
    change: Statement

    def send(self, given: dict[str, Any], connection: Any) -> list[tuple[Any, ...]]:
        sql, params = (self.read or self.change).filled(given, connection)
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            found = cursor.fetchall()
            if self.read is not None and found:
                given["keys"] = [key for key, *_ in found]
                cursor.execute(*self.change.filled(given, connection))
                if cursor.rowcount != len(found):
                    raise RowsChanged
        return found


def _in_one(update: KeyedUpdate, rows: QuerySet[Any], connection: Any) -> _Worked:
    named = by_key(rows, _KEYS, **update.condition)
    _, columns, _ = selected(rows, update.columns, connection)
    if connection.vendor == "postgresql":
        # An update can't pass over what is locked, a read can.
        free, _, _ = selected(named, ["pk"], connection)
        change = update_of(rows, update.changes, connection)
        key = columns.sql.partition(",")[0]
        # Of an array it is sure that it is worked out once.
        found = f"{key} = ANY(ARRAY({free.sql}{lock_of(rows, connection)}))"
        sql = f"{change.sql} WHERE {found} RETURNING {columns.sql}"
        return _Worked(None, Statement(sql, change.params + free.params))
    change = update_of(named, update.changes, connection)
    return _Worked(
        None, Statement(f"{change.sql} RETURNING {columns.sql}", change.params)
    )


def _in_two(update: KeyedUpdate, rows: QuerySet[Any], connection: Any) -> _Worked:
    named = by_key(rows, _KEYS, **update.condition)
    read, _, _ = selected(named.order_by("pk"), update.columns, connection)
    change = update_of(named, update.changes, connection)
    return _Worked(Statement(read.sql + lock_of(rows, connection), read.params), change)
