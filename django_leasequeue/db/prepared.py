"""Queries for whole rows whose SQL is worked out once: see `given`."""

from collections.abc import Callable
from typing import Any, NamedTuple

from django.db import models, transaction

from django_leasequeue.db.given import Converters, Given, Statement, convert
from django_leasequeue.db.instances import loaded


class _Query(NamedTuple):
    statement: Statement
    converters: Converters
    # Of all columns, by attribute, and of the annotations.
    names: list[str]


_known: dict[tuple[Any, ...], _Query] = {}


def prepared(
    query: Callable[..., models.QuerySet[Any]], rows: models.QuerySet[Any]
) -> Callable[..., list[Any]]:
    """Return a function that finds what the queryset `query(rows, **given)` would.

    `query`: a function of a module, that uses each text of `given` as the value of a
    condition and nothing else. The queryset's rows are whole ones, with annotations.
    """
    connection = transaction.get_connection(rows.db)

    def find(**given: str) -> list[Any]:
        # MariaDB and MySQL are of one vendor and differ in details of their SQL.
        key = (query, rows.model, connection.vendor, connection.display_name)
        if key not in _known:
            texts = {name: Given(name, models.CharField()) for name in given}
            _known[key] = _worked_out(query(rows, **texts), connection)
        known = _known[key]
        with connection.cursor() as cursor:
            cursor.execute(*known.statement.filled(given, connection))
            found = cursor.fetchall()
        return [_instance(rows, known, list(row), connection) for row in found]

    return find


def _worked_out(queryset: Any, connection: Any) -> _Query:
    compiler = queryset.query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    converters = compiler.get_converters([column for column, *_ in compiler.select])
    names = [field.attname for field in queryset.model._meta.concrete_fields]
    names += queryset.query.annotation_select
    return _Query(Statement(sql, list(params)), converters, names)


def _instance(
    rows: models.QuerySet[Any], known: _Query, values: list[Any], connection: Any
) -> Any:
    values = convert(values, known.converters, connection)
    return loaded(rows, dict(zip(known.names, values, strict=True)))
