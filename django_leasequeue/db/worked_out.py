"""Statements that the ORM works out once, to be filled and sent often: see `given`."""

from collections.abc import Mapping
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.sql import UpdateQuery

from django_leasequeue.db.given import Converters, Statement
from django_leasequeue.db.locks import has_row_locks
from django_leasequeue.db.transactions import is_read_committed


def kind_of(rows: QuerySet[Any], connection: Any) -> tuple[Any, ...]:
    """Return what statements are worked out for: a table in one kind of database."""
    # MariaDB and MySQL are of one vendor and differ in details of their SQL.
    skips = connection.features.has_select_for_update_skip_locked
    return rows.model, connection.vendor, connection.display_name, skips


def needs_no_block(connection: Any) -> bool:
    """Whether a statement of its own sees the newest rows, or has the write lock."""
    return connection.vendor == "sqlite" or is_read_committed(connection)


def lock_of(rows: QuerySet[Any], connection: Any) -> str:
    """Return what makes a SELECT lock its rows and pass over locked ones; "" on SQLite."""
    if not has_row_locks(rows):
        return ""
    skips = connection.features.has_select_for_update_skip_locked
    return f" {connection.ops.for_update_sql(skip_locked=skips)}"


def selected(
    rows: QuerySet[Any], columns: Any, connection: Any
) -> tuple[Statement, Statement, Converters]:
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


def update_of(
    rows: QuerySet[Any], changes: Mapping[str, Any], connection: Any
) -> Statement:
    """Return the UPDATE of these rows."""
    query: Any = rows.query.chain(UpdateQuery)
    query.add_update_values(changes)
    sql, params = query.get_compiler(connection=connection).as_sql()
    return Statement(sql, [*params])
