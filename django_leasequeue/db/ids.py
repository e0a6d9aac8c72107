"""The ids of rows that are inserted together."""

from django.db import transaction


def first_inserted_id(connection) -> int:
    """Return the first id that this connection's last multi-row INSERT made (MySQL only)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT LAST_INSERT_ID()")
        return cursor.fetchone()[0]


def reserve_ids(rows, count: int) -> list[int] | None:
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
