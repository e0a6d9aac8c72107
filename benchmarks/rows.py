"""A million rows in seconds: the database makes them, like one that is given."""

from datetime import UTC, datetime
from typing import Any

from django.db import connection

from django_leasequeue.models import Job

# Rows of one statement, and as many as the numbers below can count.
ROWS = 1_000_000

# Numbers in order, in fewer steps than any database's limit of recursion.
_NUMBERS = """
WITH RECURSIVE digits(d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM digits WHERE d < 999)
SELECT {first} + 1000 * a.d + b.d AS n FROM digits a CROSS JOIN digits b
WHERE a.d <= {steps} AND 1000 * a.d + b.d < {rows}
"""


def fill(count: int, first: int = 0, sql: dict[str, str] | None = None, **values: Any):
    """Add jobs of the no-op task with the numbers from `first` on, in this order.

    `values`: columns that are other than those of a pending job that is due. `sql`: columns
    that the database reckons from the job's number `n`.
    """
    now = datetime.now(UTC)
    given = {"task": "noop", "queue": "default", "run_at": now, "created_at": now}
    sample = Job.objects.create(**{**given, **values})
    number = (
        "CONCAT('[', n, ']')" if connection.vendor == "mysql" else "'[' || n || ']'"
    )
    reckoned = {"args": number, **(sql or {})}
    quote = connection.ops.quote_name
    fields = [field for field in Job._meta.concrete_fields if not field.primary_key]
    columns = ", ".join(quote(field.column) for field in fields)
    cells = ", ".join(
        reckoned.get(field.name, f"sample.{quote(field.column)}") for field in fields
    )
    with connection.cursor() as cursor:
        for start in range(first, first + count, ROWS):
            rows = min(ROWS, first + count - start)
            numbers = _NUMBERS.format(first=start, steps=(rows - 1) // 1000, rows=rows)
            cursor.execute(
                f"INSERT INTO {Job._meta.db_table} ({columns}) SELECT {cells} "
                f"FROM ({numbers}) numbers CROSS JOIN {Job._meta.db_table} sample "
                f"WHERE sample.id = {sample.pk} ORDER BY n"
            )
    sample.delete()
