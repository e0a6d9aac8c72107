"""Taking rows: a locking read in the order of an index, and the change of what it locked.

Where an update returns its rows (PostgreSQL, SQLite) that is one statement; elsewhere it is
the read and then the update by key, in one transaction. Both are worked out once: see `given`.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import DatabaseError, transaction
from django.db.models import Expression, ExpressionWrapper, F, Q, QuerySet
from django.db.models.sql import UpdateQuery

from django_leasequeue.db.given import Converters, Statement, convert
from django_leasequeue.db.locks import (
    by_key,
    has_row_locks,
    through_index,
    unindexed,
    write_transaction,
)
from django_leasequeue.db.transactions import is_read_committed

# Stand in the SQL for the number of rows and for the keys, which differ from time to time.
_LIMIT, _KEYS = 1_234_567_890, 1_234_567_891


class Taking:
    """Which rows are to be taken, and what is to become of them.

    `find(rows)`: those to choose from, in the order of the index `through`. `state`: their
    state, which the change itself looks at again. `changes`: as for update(). `columns`:
    what is returned of each row as it is after the change, the primary key first. Any of
    them may hold a `Given`.
    """

    def __init__(
        self,
        find: Callable[[QuerySet], QuerySet],
        through: str,
        state: Mapping[str, Any],
        changes: Mapping[str, Any],
        columns: Sequence[str | Expression],
    ) -> None:
        self.find, self.through, self.state = find, through, state
        self.changes, self.columns = changes, columns
        self._known: dict[tuple, _Worked] = {}

    def take(self, rows, limit: int, steps: Sequence[Mapping[str, Any]]) -> list[tuple]:
        """Take up to `limit` rows, all or none of them; return them in no particular order.

        `steps`: of one read after the other, the values of every `Given` by name. Rows that
        somebody has locked are passed over where the server can do that; see `locks.take`.
        """
        connection = transaction.get_connection(rows.db)
        worked = self._worked_out(rows, connection)
        alone = len(steps) == 1 and worked.read is None and _needs_no_block(connection)
        taken: list[tuple] = []
        with contextlib.nullcontext() if alone else write_transaction(rows):
            for given in steps:
                if len(taken) < limit:
                    taken += worked.send(given, limit - len(taken), connection)
        return taken

    def _worked_out(self, rows, connection) -> "_Worked":
        # MariaDB and MySQL are of one vendor and differ in details of their SQL.
        skips = connection.features.has_select_for_update_skip_locked
        key = (rows.model, connection.vendor, connection.display_name, skips)
        if key not in self._known:
            if connection.vendor == "mysql":
                self._known[key] = _in_two(self, rows, connection)
            else:
                self._known[key] = _in_one(self, rows, connection)
        return self._known[key]


class _Worked(NamedTuple):
    """What is sent to one kind of database."""

    # None where the change finds its rows itself.
    read: Statement | None
    change: Statement
    converters: Converters

    def send(self, given: Mapping[str, Any], limit: int, connection) -> list[tuple]:
        sql, params = (self.read or self.change).filled(given, connection)
        with connection.cursor() as cursor:
            cursor.execute(sql.replace(str(_LIMIT), str(int(limit))), params)
            found = cursor.fetchall()
            if self.read is not None and found:
                keys = ", ".join(str(int(key)) for key, *_ in found)
                sql, params = self.change.filled(given, connection)
                cursor.execute(sql.replace(str(_KEYS), keys), params)
                if cursor.rowcount != len(found):
                    raise DatabaseError("Rows that were locked have changed.")
        return [tuple(convert(list(row), self.converters, connection)) for row in found]


def _needs_no_block(connection) -> bool:
    """Whether a statement of its own sees the newest rows, or has the write lock."""
    return connection.vendor == "sqlite" or is_read_committed(connection)


def _in_one(taking: Taking, rows, connection) -> _Worked:
    found, _, _ = _selected(taking.find(rows)[:_LIMIT], ["pk"], connection)
    # An array PostgreSQL works out once, whatever way it then takes to the rows.
    form = "= ANY(ARRAY({}))" if connection.vendor == "postgresql" else "IN ({})"
    keys = form.format(found.sql + _lock_of(rows, connection))
    state = rows.filter(unindexed(Q(**taking.state), using=rows.db))
    change = _update(state, taking.changes, connection)
    _, columns, converters = _selected(rows, taking.columns, connection)
    key = columns.sql.partition(",")[0]
    sql = f"{change.sql} AND {key} {keys} RETURNING {columns.sql}"
    params = change.params + found.params + columns.params
    return _Worked(None, Statement(sql, params), converters)


def _in_two(taking: Taking, rows, connection) -> _Worked:
    # What a column is changed to, as the read can foresee it.
    foreseen = [
        ExpressionWrapper(taking.changes[column], rows.model._meta.get_field(column))
        if isinstance(column, str) and column in taking.changes
        else column
        for column in taking.columns
    ]
    read, _, converters = _selected(taking.find(rows)[:_LIMIT], foreseen, connection)
    sql = through_index(rows, taking.through, read.sql) + _lock_of(rows, connection)
    locked = by_key(rows, [_KEYS], **taking.state)
    change = _update(locked, taking.changes, connection)
    return _Worked(Statement(sql, read.params), change, converters)


def _lock_of(rows, connection) -> str:
    if not has_row_locks(rows):
        return ""
    skips = connection.features.has_select_for_update_skip_locked
    return f" {connection.ops.for_update_sql(skip_locked=skips)}"


def _selected(rows, columns, connection) -> tuple[Statement, Statement, Converters]:
    """Return the SELECT of these columns, its list alone, and what is done to its rows."""
    named = {
        f"c{place}": F(column) if isinstance(column, str) else column
        for place, column in enumerate(columns)
    }
    query = rows.annotate(**named).values_list(*named).query
    compiler = query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    listed = ", ".join(own for _, (own, _), _ in compiler.select)
    given = [one for _, (_, own), _ in compiler.select for one in own]
    converters = compiler.get_converters([column for column, *_ in compiler.select])
    return Statement(sql, [*params]), Statement(listed, given), converters


def _update(rows, changes: Mapping[str, Any], connection) -> Statement:
    query = rows.query.chain(UpdateQuery)
    query.add_update_values(changes)
    sql, params = query.get_compiler(connection=connection).as_sql()
    return Statement(sql, [*params])
