"""Inserts of rows with many columns, most of which stay at their defaults.

The ORM prepares every column of every row, which for forty columns takes longer than the
database does. Here the defaults are words of the statement, and only what is given is a
parameter. Signals of models are not sent, as with bulk_create().
"""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import models, transaction

# Parameters of one statement: PostgreSQL's protocol counts them in 16 bits. For MySQL the
# driver puts them into the text. SQLite is asked.
_PARAMETERS = {"postgresql": 65_535, "mysql": sys.maxsize}
_SIMPLE = re.compile(r"[\w\[\]{}]*", re.ASCII)


class _Shape(NamedTuple):
    """An INSERT of rows of which the same columns are parameters."""

    start: str
    fields: tuple[models.Field, ...]
    # What follows them in each row.
    defaults: str


_shapes: dict[tuple, _Shape] = {}


def insert_row(rows, new: Mapping[str, Any]) -> int:
    """Insert one row and return its id: see insert_rows()."""
    told = insert_rows(rows, [new])
    assert told is not None  # every database tells of a single row
    return told[0]


def insert_rows(rows, new: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Insert rows in this order; return their ids, or None where the database doesn't tell.

    `new`: the values given, by the names of fields; a field that one of them gives and
    another does not is at its default there. Values may be expressions of the database's
    clock. Runs in the transaction at hand, in several statements if there are too many
    parameters. The id of a single row is always told.
    """
    if not new:
        return []
    connection = transaction.get_connection(rows.db)
    names = tuple(sorted({name for row in new for name in row}))
    shape = _shape(connection, rows.model, names)
    told = []
    with connection.cursor() as cursor:
        most = _most_parameters(connection) // len(shape.fields)
        for start in range(0, len(new), most):
            some = new[start : start + most]
            sql, params = _statement(connection, shape, some)
            told.append(
                _execute(connection, cursor, rows.model, sql, params, len(some))
            )
    ids = [pk for some in told if some is not None for pk in some]
    return ids if len(ids) == len(new) else None


def _execute(connection, cursor, model, sql, params, count: int) -> list[int] | None:
    features = connection.features
    if (
        features.can_return_rows_from_bulk_insert
        if count > 1
        else features.can_return_columns_from_insert
    ):
        key = connection.ops.quote_name(model._meta.pk.column)
        cursor.execute(f"{sql} RETURNING {key}", params)
        return [row[0] for row in cursor.fetchall()]
    cursor.execute(sql, params)
    return [cursor.lastrowid] if count == 1 else None


def _shape(connection, model, names: tuple[str, ...]) -> _Shape:
    key = (model, connection.vendor, names)
    if key not in _shapes:
        quote = connection.ops.quote_name
        given, rest = [], {}
        for field in model._meta.concrete_fields:
            if field.name in names:
                given.append(field)
            elif not field.primary_key:
                word = _default(connection, field)
                if word is None:
                    given.append(field)
                else:
                    rest[quote(field.column)] = word
        columns = ", ".join([*(quote(field.column) for field in given), *rest])
        start = f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES "
        defaults = "".join(f", {word}" for word in rest.values())
        _shapes[key] = _Shape(start, tuple(given), defaults)
    return _shapes[key]


def _default(connection, field: models.Field) -> str | None:
    """Return a field's default as a word of SQL; None if there is none so simple."""
    value = field.get_db_prep_save(field.get_default(), connection)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper() if connection.vendor == "postgresql" else str(+value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and _SIMPLE.fullmatch(value):
        return f"'{value}'"
    return None


def _statement(connection, shape: _Shape, new) -> tuple[str, list[Any]]:
    words, params = [], []
    as_vendor = f"as_{connection.vendor}"
    for row in new:
        places = []
        for field in shape.fields:
            value = row[field.name] if field.name in row else field.get_default()
            if hasattr(value, "resolve_expression"):
                place, own = getattr(value, as_vendor)(None, connection)
                places.append(place)
                params += own
            else:
                places.append("%s")
                params.append(field.get_db_prep_save(value, connection))
        words.append(f"({', '.join(places)}{shape.defaults})")
    return shape.start + ", ".join(words), params


def _most_parameters(connection) -> int:
    if connection.vendor in _PARAMETERS:
        return _PARAMETERS[connection.vendor]
    import sqlite3  # a Python without it has another database

    return connection.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
