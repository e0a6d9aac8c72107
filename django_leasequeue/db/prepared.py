"""Queries whose SQL is worked out once: for that the ORM takes longer than the database
for the answer.

Only what is sent for each job is worth it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from django.db import models, transaction

from django_leasequeue.db.instances import loaded

# Stand for the texts while the SQL is worked out. No parameter of the query's own has a NUL.
_MARK = "\0text {}"


class _Query(NamedTuple):
    sql: str
    params: list[Any]
    # By the place of a column: what turns the driver's value into the field's.
    converters: dict[int, tuple[list[Callable], Any]]
    # Of all columns, by attribute, and of the annotations.
    names: list[str]


_known: dict[tuple, _Query] = {}


def prepared(query: Callable[..., models.QuerySet], rows) -> Callable[..., list]:
    """Return a function of texts that finds what the queryset `query(rows, *texts)` would.

    `query`: a function of a module, of which each text becomes a parameter and nothing else.
    The queryset's rows are whole ones, with annotations.
    """
    connection = transaction.get_connection(rows.db)

    def find(*texts: str) -> list:
        # MariaDB and MySQL are of one vendor and differ in details of their SQL.
        key = (query, rows.model, connection.vendor, connection.display_name)
        marks = [_MARK.format(number) for number in range(len(texts))]
        if key not in _known:
            _known[key] = _worked_out(query(rows, *marks), connection)
        known = _known[key]
        given = dict(zip(marks, texts, strict=True))
        with connection.cursor() as cursor:
            cursor.execute(known.sql, [given.get(one, one) for one in known.params])
            found = cursor.fetchall()
        return [_instance(rows, known, list(row), connection) for row in found]

    return find


def _worked_out(queryset, connection) -> _Query:
    compiler = queryset.query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    converters = compiler.get_converters([column for column, *_ in compiler.select])
    names = [field.attname for field in queryset.model._meta.concrete_fields]
    names += queryset.query.annotation_select
    return _Query(sql, list(params), converters, names)


def _instance(rows, known: _Query, values: list, connection):
    for place, (converters, expression) in known.converters.items():
        if values[place] is not None:  # which every converter leaves as it is
            for convert in converters:
                values[place] = convert(values[place], expression, connection)
    return loaded(rows, dict(zip(known.names, values, strict=True)))
