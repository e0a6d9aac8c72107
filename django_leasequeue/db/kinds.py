"""The queues and tasks of which there are finished jobs of a status, and bounded counts.

What people and probes ask costs what there are queues and tasks, not what there are rows.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from django_leasequeue.db.parts import PARTS, by_part
from django_leasequeue.states import Status

# Each step asks the index for the next larger pair ("loose index scan"), see `lanes`.
_BY_HEADS = """
WITH RECURSIVE kinds(queue, task) AS (
    (SELECT queue, task FROM {table} WHERE {finished} {order})
    UNION ALL
    SELECT head.* FROM kinds CROSS JOIN LATERAL (
        SELECT queue, task FROM {table}
        WHERE {finished} AND (queue, task) > (kinds.queue, kinds.task) {order}
    ) head
)
SELECT queue, task FROM kinds LIMIT {limit}
"""
_ORDER = "ORDER BY queue, task, finished_at, id LIMIT 1"

# SQLite seeks by one bound at a time.
_STEPWISE = """
WITH RECURSIVE queues(queue) AS (
    SELECT MIN(queue) FROM {table} WHERE {finished}
    UNION ALL
    SELECT (SELECT MIN(queue) FROM {table} WHERE {finished} AND queue > q.queue)
    FROM queues q WHERE q.queue IS NOT NULL
), kinds(queue, task) AS (
    SELECT q.queue, (SELECT MIN(task) FROM {table} WHERE {finished} AND queue = q.queue)
    FROM queues q WHERE q.queue IS NOT NULL
    UNION ALL
    SELECT k.queue, (SELECT MIN(task) FROM {table}
                     WHERE {finished} AND queue = k.queue AND task > k.task)
    FROM kinds k WHERE k.task IS NOT NULL
)
SELECT queue, task FROM kinds WHERE task IS NOT NULL LIMIT {limit}
"""

# A range of the status, since MariaDB takes what equals a constant out of the grouping.
_GROUPED = """
SELECT queue, task FROM {table} FORCE INDEX (leasequeue_finished)
WHERE status >= '{status}' AND status <= '{status}'
GROUP BY status, queue, task ORDER BY NULL LIMIT {limit}
"""


def finished_kinds(
    table: str, status: Status, limit: int, using: str
) -> list[tuple[str, str]]:
    """Return up to `limit` pairs of queue and task of which there are jobs of this status."""
    connection = connections[using]
    words: dict[str, Any] = {
        "table": connection.ops.quote_name(table),
        "status": Status(status).value,
        "finished": f"status = '{Status(status).value}' AND finished_at IS NOT NULL",
        "order": _ORDER,
        "limit": int(limit),
    }
    if connection.vendor == "mysql":
        sql = _GROUPED.format(**words)
    elif connection.vendor == "sqlite":
        words["table"] += " INDEXED BY leasequeue_finished"
        sql = _STEPWISE.format(**words)
    else:
        sql = _BY_HEADS.format(**words)
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [(queue, task) for queue, task in cursor.fetchall()]


def bounded_counts(
    rows: QuerySet[Any], index: str, wheres: Sequence[dict[str, Any]], limit: int
) -> list[int]:
    """Return for each of `wheres`, conditions as for filter(), how many rows there are.

    No more than `limit` are counted of each, in the order of `index`: a partial index of the
    model that the conditions' columns lead, and whose own condition is added to them. One
    statement for every 200.
    """
    counts: list[int] = []
    for start in range(0, len(wheres), PARTS):
        some = wheres[start : start + PARTS]
        counts += _counts(rows, index, some, limit)
    return counts


def _counts(
    rows: QuerySet[Any], index: str, wheres: Sequence[dict[str, Any]], limit: int
) -> list[int]:
    selected = "{number} AS part, COUNT(*)"
    counts = by_part(rows, index, wheres, limit, selected)
    counted = {row[0]: row[1] for row in counts}
    return [counted[number] for number in range(len(wheres))]


def newest(
    rows: QuerySet[Any], index: str, wheres: Sequence[dict[str, Any]], column: str
) -> list[int]:
    """Return the key of the row that is last by a column, for each of `wheres` that has any.

    As for bounded_counts, with no more than 200 of them; `column` comes in the index next to
    those of the conditions, and then the key. One statement.
    """
    if not wheres:
        return []
    order = (f"-{column}", "-pk")
    selected = "part{number}.*"
    return [pk for (pk,) in by_part(rows, index, wheres, 1, selected, order)]
