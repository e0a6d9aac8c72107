"""Inserts of many rows by one statement, in the fastest form that each database has.

What all rows share is a word of the statement. What differs goes to PostgreSQL as arrays and
to SQLite as one JSON text, which they take apart faster than they parse rows of values; to
MySQL and MariaDB, whose INSERT ... SELECT leaves gaps between ids, as rows of values.
"""

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from django.db import models, transaction

from django_leasequeue.db.inserts import (
    Shape,
    parameter,
    returning,
    shape,
    stored,
    told_ids,
    word,
)

# Parameters of one statement: PostgreSQL's protocol counts them in 16 bits. For MySQL the
# driver puts them into the text. SQLite is asked.
_PARAMETERS = {"postgresql": 65_535, "mysql": sys.maxsize}

# A piece of SQL and its parameters.
_Sql = tuple[str, list[Any]]


class _Column:
    """A field and its value in each row."""

    def __init__(
        self, field: "models.Field[Any, Any]", values: list[Any], is_text: bool
    ) -> None:
        self.field, self.values, self.is_text = field, values, is_text
        first = values[0]
        # Equal lists may differ as JSON, as 1 and True do.
        unclear = isinstance(first, list | dict) and first
        self.same = not unclear and values.count(first) == len(values)
        some = values[:1] if self.same else values
        self.computed = any(hasattr(value, "resolve_expression") for value in some)

    def shared(self, connection: Any) -> _Sql:
        """Return the one value of all rows."""
        value = self.values[0]
        if not self.computed:
            simple = word(connection, self.field, value, self.is_text)
            if simple is not None:
                return simple, []
        return parameter(connection, self.field, value, self.is_text)

    def stored(self, connection: Any) -> list[Any]:
        """Return what is stored in each row."""
        if self.is_text:
            return self.values
        return [stored(connection, self.field, value) for value in self.values]

    def cells(self, connection: Any) -> list[_Sql]:
        """Return the value of each row."""
        if self.same:
            return [self.shared(connection)] * len(self.values)
        if self.computed:
            return [parameter(connection, self.field, value) for value in self.values]
        return [("%s", [value]) for value in self.stored(connection)]


def insert_rows(
    rows: models.QuerySet[Any],
    new: Sequence[Mapping[str, Any]],
    texts: Collection[str] = (),
) -> list[int] | None:
    """Insert rows in this order; return their ids, or None where the database doesn't tell.

    See insert_row(); a field that one row gives and another does not is at its default
    there. Runs in the transaction at hand, in several statements if there are too many
    parameters. The id of a single row is always told.
    """
    if not new:
        return []
    connection = transaction.get_connection(rows.db)
    given = shape(connection, rows.model, tuple(sorted(set[str]().union(*new))))
    columns = []
    for field in given.fields:
        default, is_text = field.get_default(), field.name in texts
        if is_text:
            default = field.get_db_prep_save(default, connection)
        values = [row.get(field.name, default) for row in new]
        columns.append(_Column(field, values, is_text))
    told: list[int] = []
    with connection.cursor() as cursor:
        for sql, params, count in _statements(connection, given, columns):
            if _tells(connection, count):
                cursor.execute(sql + returning(connection, rows.model), params)
                told += told_ids(cursor, count)
            else:
                cursor.execute(sql, params)
                told += [cursor.lastrowid] if count == 1 else []
    return told if len(told) == len(new) else None


def _tells(connection: Any, count: int) -> bool:
    features = connection.features
    return (
        features.can_return_columns_from_insert
        if count == 1
        else features.can_return_rows_from_bulk_insert
    )


def _statements(
    connection: Any, given: Shape, columns: list[_Column]
) -> Iterator[tuple[str, list[Any], int]]:
    """Yield statements, their parameters and how many rows each inserts."""
    differing = [column for column in columns if not column.same] or columns[:1]
    table_of = _TABLES.get(connection.vendor)
    if table_of is None or any(column.computed for column in differing):
        yield from _of_values(connection, given, columns)
        return
    table, names, own = table_of(connection, differing)
    taken = dict(zip(map(id, differing), names, strict=True))
    places, params = [], []
    for column in columns:
        if id(column) in taken:
            places.append(taken[id(column)])
        else:
            place, shared = column.shared(connection)
            places.append(place)
            params += shared
    sql = f"{given.start} SELECT {', '.join(places)}{given.defaults} FROM {table}"
    yield sql, params + own, len(columns[0].values)


def _arrays(
    connection: Any, columns: list[_Column]
) -> tuple[str, list[str], list[Any]]:
    arrays: list[str] = []
    params: list[Any] = []
    for column in columns:
        if column.is_text:
            # One text is written out far faster than an array of a thousand.
            arrays.append("STRING_TO_ARRAY(%s, CHR(10))")
            params.append("\n".join(column.values))
        else:
            kind, *_ = (column.field.db_type(connection) or "").split("(")
            arrays.append(f"%s::{kind}[]")
            params.append(column.stored(connection))
    names = [f"given.c{number}" for number in range(len(columns))]
    aliases = ", ".join(name.partition(".")[2] for name in names)
    return f"UNNEST({', '.join(arrays)}) AS given({aliases})", names, params


def _json(connection: Any, columns: list[_Column]) -> tuple[str, list[str], list[Any]]:
    in_rows = zip(*(column.stored(connection) for column in columns), strict=True)
    names = [f"JSON_EXTRACT(value, '$[{number}]')" for number in range(len(columns))]
    return "JSON_EACH(%s)", names, [json.dumps(list(in_rows))]


# By vendor: what makes a table of columns, its name, those of the columns and parameters.
# Rows come from it, and get their ids, in the order of the values.
_TABLES: dict[str, Callable[..., Any]] = {"postgresql": _arrays, "sqlite": _json}


def _of_values(
    connection: Any, given: Shape, columns: list[_Column]
) -> Iterator[tuple[str, list[Any], int]]:
    cells = [column.cells(connection) for column in columns]
    in_rows = list(zip(*cells, strict=True))
    widest = max(sum(len(own) for _, own in row) for row in in_rows)
    most = max(1, _most_parameters(connection) // max(1, widest))
    for start in range(0, len(in_rows), most):
        some = in_rows[start : start + most]
        words = [
            f"({', '.join([sql for sql, _ in row])}{given.defaults})" for row in some
        ]
        params = [one for row in some for _, own in row for one in own]
        yield f"{given.start} VALUES {', '.join(words)}", params, len(some)


def _most_parameters(connection: Any) -> int:
    if connection.vendor in _PARAMETERS:
        return _PARAMETERS[connection.vendor]
    import sqlite3  # a Python without it has another database

    return connection.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
