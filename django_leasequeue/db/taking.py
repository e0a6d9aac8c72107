"""Taking rows: a locking read in the order of an index, and the change of what it locked.

Where an update returns its rows (PostgreSQL, SQLite) that is one statement; elsewhere, and
where somebody chooses from what was locked, it is the read and then the update by key, in one
transaction. Both are worked out once: see `given`.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import DatabaseError, transaction
from django.db.models import (
    BigIntegerField,
    Expression,
    ExpressionWrapper,
    Q,
    QuerySet,
)

from django_leasequeue.db.given import Converters, Given, GivenKeys, Statement
from django_leasequeue.db.instants import DatabaseNow
from django_leasequeue.db.kept import fetched
from django_leasequeue.db.locks import (
    by_key,
    through_index,
    unindexed,
    write_transaction,
)
from django_leasequeue.db.worked_out import (
    kind_of,
    lock_of,
    needs_no_block,
    selected,
    update_of,
)

# Looks of one that chooses, each at more rows than the last, up to so many.
_LOOKS, _WIDEST = 5, 500
# (the rows found, how many are wanted) -> (those to take, whether another look is worth it)
Choice = Callable[[list[tuple[Any, ...]], int], tuple[list[tuple[Any, ...]], bool]]

# The number of rows differs from time to time; the first stands for it in the ORM's SQL.
_LIMIT, _GIVEN_LIMIT = 1_234_567_890, Given("limit", BigIntegerField())
_KEYS = GivenKeys("keys")


class Taking:
    """Which rows are to be taken, and what is to become of them.

    `find(rows)`: those to choose from, in the order of the index `through`. `state`: their
    state, which the change itself looks at again. `changes`: as for update(). `columns`:
    what is returned of each row as it is after the change, the primary key first; `now`:
    the one of them that is changed to the database's time. Any but that may hold a `Given`.
    """

    def __init__(
        self,
        find: Callable[[QuerySet[Any]], QuerySet[Any]],
        through: str,
        state: Mapping[str, Any],
        changes: Mapping[str, Any],
        columns: Sequence[str | Expression],
        now: str,
    ) -> None:
        self.find, self.through, self.state = find, through, state
        self.changes, self.columns, self.now = changes, columns, now
        self._known: dict[tuple[Any, ...], _Worked] = {}

    def take(
        self,
        rows: QuerySet[Any],
        limit: int,
        steps: Sequence[Mapping[str, Any]],
        choose: Choice | None = None,
    ) -> list[tuple[Any, ...]]:
        """Take up to `limit` rows, all or none of them; return them in no particular order.

        `steps`: of one read after the other, the values of every `Given` by name. Rows that
        somebody has locked are passed over where the server can do that; see `locks.take`.
        `choose`: chooses from rows that are locked, in their order and as they will be; it
        may change the others, and is asked again while that is worth it.
        """
        connection = transaction.get_connection(rows.db)
        worked = self._worked_out(rows, connection, in_two=choose is not None)
        alone = len(steps) == 1 and worked.read is None and needs_no_block(connection)
        taken: list[tuple[Any, ...]] = []
        with contextlib.nullcontext() if alone else write_transaction(rows):
            for given in steps:
                if len(taken) < limit:
                    left = limit - len(taken)
                    if choose is None:
                        taken += worked.send(given, left, connection)
                    else:
                        taken += worked.choose(given, left, connection, choose)
        return taken

    def _worked_out(
        self, rows: QuerySet[Any], connection: Any, in_two: bool
    ) -> "_Worked":
        in_two |= connection.vendor == "mysql"
        key = (*kind_of(rows, connection), in_two)
        if key not in self._known:
            if in_two:
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
    # The place among the columns of the time, which the change stores as it was read.
    now: int

    def send(
        self, given: Mapping[str, Any], limit: int, connection: Any
    ) -> list[tuple[Any, ...]]:
        found = self._found(given, limit, connection)
        if self.read is not None:
            self._take(given, found, connection)
        return found

    def choose(
        self, given: Mapping[str, Any], limit: int, connection: Any, choose: Choice
    ) -> list[tuple[Any, ...]]:
        taken: list[tuple[Any, ...]] = []
        width = limit
        for _ in range(_LOOKS):
            found = self._found(given, width, connection)
            chosen, again = choose(found, limit - len(taken))
            self._take(given, chosen, connection)
            taken += chosen
            if not again or len(taken) == limit:
                break
            width = min(max(4 * width, 50), _WIDEST)
        return taken

    def _found(
        self, given: Mapping[str, Any], limit: int, connection: Any
    ) -> list[tuple[Any, ...]]:
        given = {**given, "limit": int(limit)}
        sql, params = (self.read or self.change).filled(given, connection)
        found = fetched(connection, sql, params)
        return _converted(found, self.converters, connection)

    def _take(
        self, given: Mapping[str, Any], found: list[tuple[Any, ...]], connection: Any
    ) -> None:
        if not found:
            return
        known = {"keys": [key for key, *_ in found], "now": found[0][self.now]}
        with connection.cursor() as cursor:
            cursor.execute(*self.change.filled({**given, **known}, connection))
            if cursor.rowcount != len(found):
                raise DatabaseError("Rows that were locked have changed.")


def _converted(
    found: list[tuple[Any, ...]], converters: Converters, connection: Any
) -> list[tuple[Any, ...]]:
    """Return rows with the driver's values turned into the fields'."""
    if not converters:
        return found
    rows = [list(row) for row in found]
    for place, (steps, expression) in converters.items():
        # The rows of one statement often have it in common, such as the time.
        known: dict[Any, Any] = {None: None}  # which every converter leaves as it is
        for row in rows:
            value = row[place]
            if value not in known:
                known[value] = value
                for step in steps:
                    known[value] = step(known[value], expression, connection)
            row[place] = known[value]
    return [tuple(row) for row in rows]


def _in_one(taking: Taking, rows: QuerySet[Any], connection: Any) -> _Worked:
    found, _, _ = selected(taking.find(rows)[:_LIMIT], ["pk"], connection)
    # An array PostgreSQL works out once, whatever way it then takes to the rows.
    form = "= ANY(ARRAY({}))" if connection.vendor == "postgresql" else "IN ({})"
    keys = form.format(found.sql.replace(str(_LIMIT), "%s") + lock_of(rows, connection))
    state = rows.filter(unindexed(Q(**taking.state), using=rows.db))
    change = update_of(state, taking.changes, connection)
    _, columns, converters = selected(rows, taking.columns, connection)
    key = columns.sql.partition(",")[0]
    sql = f"{change.sql} AND {key} {keys} RETURNING {columns.sql}"
    params = change.params + found.params + [_GIVEN_LIMIT] + columns.params
    now = taking.columns.index(taking.now)
    return _Worked(None, Statement(sql, params), converters, now)


def _in_two(taking: Taking, rows: QuerySet[Any], connection: Any) -> _Worked:
    # What a column is changed to, as the read can foresee it.
    foreseen = [
        ExpressionWrapper(taking.changes[column], rows.model._meta.get_field(column))
        if isinstance(column, str) and column in taking.changes
        else column
        for column in taking.columns
    ]
    read, _, converters = selected(taking.find(rows)[:_LIMIT], foreseen, connection)
    sql = read.sql
    if connection.vendor == "mysql":
        sql = through_index(rows, taking.through, sql)
    sql += lock_of(rows, connection)
    sql = sql.replace(str(_LIMIT), "%s")
    locked = by_key(rows, _KEYS, **taking.state)
    # The time of the read, not the later one of the change: the row is to tell the same as
    # what is returned of it.
    read_at = Given("now", rows.model._meta.get_field(taking.now))
    changes = {
        column: change.replace_expressions({DatabaseNow(): read_at})
        if isinstance(change, Expression)
        else change
        for column, change in taking.changes.items()
    }
    change = update_of(locked, changes, connection)
    sent = Statement(sql, [*read.params, _GIVEN_LIMIT])
    return _Worked(sent, change, converters, taking.columns.index(taking.now))
