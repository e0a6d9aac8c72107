"""Inserts of rows with many columns, most of which stay at their defaults.

The ORM prepares every column of every row, which for forty columns takes longer than the
database does. Here the defaults are words of the statement, what is null is not named, and
only what is given is a parameter. Signals of models are not sent, as with bulk_create().
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from django.db import models, transaction

_AS_IT_IS = {str: models.CharField, int: models.IntegerField}
_SIMPLE = re.compile(r"[\w\[\]{}.:-]*", re.ASCII)


class Shape(NamedTuple):
    """What INSERTs have in common that give the same fields."""

    fields: "tuple[models.Field[Any, Any], ...]"
    # "INSERT INTO table (columns)", those given first.
    start: str
    # What follows the values given: ", 0, 'pending'".
    defaults: str


_shapes: dict[tuple[Any, ...], Shape] = {}


def insert_row(
    rows: models.QuerySet[Any], new: Mapping[str, Any], texts: Collection[str] = ()
) -> int:
    """Insert one row and return its id.

    `new`: the values given, by the names of fields; the others are at their defaults. Values
    may be expressions of the database's clock. `texts`: fields of JSON whose values
    are given as text, in ASCII without line breaks.
    """
    connection = transaction.get_connection(rows.db)
    given = shape(connection, rows.model, tuple(new))
    places, params = [], []
    for field in given.fields:
        value = new[field.name] if field.name in new else field.get_default()
        place, own = parameter(connection, field, value, field.name in texts)
        places.append(place)
        params += own
    sql = f"{given.start} VALUES ({', '.join(places)}{given.defaults})"
    with connection.cursor() as cursor:
        if not connection.features.can_return_columns_from_insert:
            cursor.execute(sql, params)
            return cursor.lastrowid
        cursor.execute(sql + returning(connection, rows.model), params)
        return told_ids(cursor, 1)[0]


def told_ids(cursor: Any, count: int) -> list[int]:
    """Return the ids that an INSERT of so many rows told by its RETURNING.

    The last ones: a MariaDB that shares its data with others (Galera) runs a statement that
    one of them has refused again by itself, and has sent the ids of the first try by then.
    """
    return [pk for (pk,) in cursor.fetchall()][-count:]


def shape(connection: Any, model: type[models.Model], names: tuple[str, ...]) -> Shape:
    """Return the parts of an INSERT that gives the fields of these names, in any order."""
    key = (model, connection.vendor, names)
    if key not in _shapes:
        quote = connection.ops.quote_name
        given, rest = [], {}
        for field in model._meta.concrete_fields:
            if field.name in names:
                given.append(field)
            elif not field.primary_key and field.get_default() is not None:
                default = word(connection, field, field.get_default())
                if default is None:
                    given.append(field)
                else:
                    rest[quote(field.column)] = default
        columns = ", ".join([*(quote(field.column) for field in given), *rest])
        start = f"INSERT INTO {quote(model._meta.db_table)} ({columns})"
        defaults = "".join(f", {default}" for default in rest.values())
        _shapes[key] = Shape(tuple(given), start, defaults)
    return _shapes[key]


def stored(connection: Any, field: "models.Field[Any, Any]", value: Any) -> Any:
    """Return a value as the parameter that stores it."""
    # What the field would return as it is, after a while.
    if value is None or isinstance(field, _AS_IT_IS.get(type(value), ())):
        return value
    return field.get_db_prep_save(value, connection)


def parameter(
    connection: Any, field: Any, value: Any, is_text: bool = False
) -> tuple[str, list[Any]]:
    """Return the SQL of a value and its parameters."""
    if is_text:
        return "%s", [value]
    if hasattr(value, "resolve_expression"):
        return getattr(value, f"as_{connection.vendor}")(None, connection)
    return "%s", [stored(connection, field, value)]


def word(connection: Any, field: Any, value: Any, is_text: bool = False) -> str | None:
    """Return a value as a word of SQL; None if it is not so simple."""
    if value == [] or value == {}:
        return f"'{value}'"  # in whatever type the database keeps JSON
    if not is_text:
        value = field.get_db_prep_save(value, connection)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper() if connection.vendor == "postgresql" else str(+value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str) and _SIMPLE.fullmatch(value):
        return f"'{value}'"
    return None


def returning(connection: Any, model: type[models.Model]) -> str:
    """Return the words by which an INSERT tells the ids."""
    return f" RETURNING {connection.ops.quote_name(model._meta.pk.column)}"
