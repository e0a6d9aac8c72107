"""Tens of thousands of rows in a second, for tests of query plans and migrations."""

from django.db import connections

from django_leasequeue.models import Job

# 0 to 9999, without a recursion limit in the way.
_NUMBERS = """
SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS n FROM
({digits}) a CROSS JOIN ({digits}) b CROSS JOIN ({digits}) c CROSS JOIN ({digits}) e
""".format(digits=" UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10)))


def multiply(job, count, *, using):
    """Add `count` rows, at most 10,000, that are like `job` but for the id.

    If it has a dedup id, theirs are "<its own id>-0", "…-1" and so on. `job` may be of a
    migration's model.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    table = quote(job._meta.db_table)
    columns = [quote(f.column) for f in job._meta.concrete_fields if not f.primary_key]
    mark = "CONCAT(id, '-', n)" if connection.vendor == "mysql" else "id || '-' || n"
    values = [
        f"CASE WHEN dedup_id IS NOT NULL THEN {mark} END"
        if column == quote("dedup_id")
        else column
        for column in columns
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
            f"FROM {table} CROSS JOIN ({_NUMBERS}) numbers "
            f"WHERE {table}.id = %s AND n < %s",
            [job.pk, count],
        )


def analyze(using):
    """Let the database count what it has, as its planner does from time to time."""
    connection = connections[using]
    table = connection.ops.quote_name(Job._meta.db_table)
    with connection.cursor() as cursor:
        of = "TABLE " if connection.vendor == "mysql" else ""
        cursor.execute(f"ANALYZE {of}{table}")
        if connection.vendor == "mysql":
            cursor.fetchall()
