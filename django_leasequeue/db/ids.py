"""The ids of rows that are inserted together, and unique values given to them in one order."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from django_leasequeue.db.locks import forced


def bulk_insert_returns_ids(rows: QuerySet[Any]) -> bool:
    """Whether bulk_create() sets the ids of what it has inserted."""
    features = transaction.get_connection(rows.db).features
    return features.can_return_rows_from_bulk_insert


def first_inserted_id(rows: QuerySet[Any]) -> int:
    """Return the first id that the connection's last multi-row INSERT made (MySQL only)."""
    with transaction.get_connection(rows.db).cursor() as cursor:
        cursor.execute("SELECT LAST_INSERT_ID()")
        return cursor.fetchone()[0]


def reserve_ids(rows: QuerySet[Any], count: int) -> list[int] | None:
    """Take ids that nobody else gets, ascending; None where only an INSERT can take them."""
    connection = transaction.get_connection(rows.db)
    if connection.vendor != "postgresql":
        return None
    meta = rows.model._meta
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT NEXTVAL(PG_GET_SERIAL_SEQUENCE(%s, %s)) FROM GENERATE_SERIES(1, %s)",
            [connection.ops.quote_name(meta.db_table), meta.pk.column, count],
        )
        return sorted(number for (number,) in cursor.fetchall())


def update_in_order(
    rows: QuerySet[Any], ids: Sequence[int], order: Sequence[str], **columns: Any
) -> None:
    """Update rows of these ids one after the other, in the order of columns (MySQL only)."""
    with forced(rows):
        rows.filter(pk__in=ids).order_by(*order).update(**columns)
