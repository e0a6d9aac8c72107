"""The few different values of an indexed column among many rows."""

from django.db import connections

# Each step asks the index for the next larger value: the cost is that of the values, not of
# their rows ("loose index scan").
_STEPWISE = """
WITH RECURSIVE found(value, number) AS (
    SELECT MIN({column}), 1 FROM {table}
    UNION ALL
    SELECT (SELECT MIN({column}) FROM {table} WHERE {column} > f.value), f.number + 1
    FROM found f WHERE f.value IS NOT NULL AND f.number < %s
)
SELECT value FROM found WHERE value IS NOT NULL
"""

# MySQL and MariaDB do the same by themselves for a column that an index begins with, but
# scan for a correlated MIN.
_GROUPED = "SELECT {column} FROM {table} GROUP BY {column} ORDER BY {column} LIMIT %s"


def distinct(table: str, column: str, limit: int, using: str) -> list[str]:
    """Return up to `limit` values of a column, smallest first.

    Quick for any number of rows if the column is not null and the first of an index.
    """
    connection = connections[using]
    statement = _GROUPED if connection.vendor == "mysql" else _STEPWISE
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(
            statement.format(table=quote(table), column=quote(column)), [limit]
        )
        return [value for (value,) in cursor.fetchall()]
