"""An insert that depends on another row, in one statement."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet, Value

from django_leasequeue.db.locks import forced


def insert_from(rows: QuerySet[Any], source: Any, new: dict[str, Any]) -> int:
    """Insert a row for each row of `source`, which is locked for it; return how many.

    `source`: a queryset of another table, by primary key. Rows of it that somebody has
    locked are passed over. `new`: all fields but the key, by name: values of the new row's
    fields, or expressions on the row of `source`.
    """
    connection = transaction.get_connection(rows.db)
    quote, features = connection.ops.quote_name, connection.features
    columns, values = [], {}
    for name, value in new.items():
        field = rows.model._meta.get_field(name)
        columns.append(quote(field.column))
        if not hasattr(value, "resolve_expression"):
            value = Value(value, output_field=field)
        values[f"new_{name}"] = value
    found = source.order_by().annotate(**values).values_list(*values)
    sql, params = found.query.get_compiler(connection=connection).as_sql()
    lock = ""
    if features.has_select_for_update:
        skip = features.has_select_for_update_skip_locked
        lock = " " + connection.ops.for_update_sql(skip_locked=skip)
    table = quote(rows.model._meta.db_table)
    insert = f"INSERT INTO {table} ({', '.join(columns)}) {sql}{lock}"
    with forced(source), connection.cursor() as cursor:
        cursor.execute(insert, params)
        return cursor.rowcount
