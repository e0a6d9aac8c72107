"""The lanes of the claim index: its distinct (queue, priority) pairs, and the head of each.

All pending jobs of one queue and priority lie side by side in the claim index, by run_at. A
claim reads lanes from their heads, so that it never sorts, and jobs that are not due or whose
queue nobody asked for cost one look at their lane, however many they are.
"""

from typing import NamedTuple

from django.db import connections

from django_leasequeue.states import Status


class Lane(NamedTuple):
    """A queue and priority with pending jobs; `due_in`: seconds until the first is due."""

    queue: str
    priority: int
    due_in: float


# Each step asks the index for the head of the next lane: the cost is that of the lanes, not
# of their rows ("loose index scan"). The full order makes the claim index the only cheap way:
# by the queue alone the planner may take the dedup index and wade through finished rows.
_BY_HEADS = """
WITH RECURSIVE lanes(queue, priority, run_at) AS (
    (SELECT queue, priority, run_at FROM {table} WHERE {pending}
     ORDER BY queue, priority, run_at, id LIMIT 1)
    UNION ALL
    SELECT head.* FROM lanes CROSS JOIN LATERAL (
        SELECT queue, priority, run_at FROM {table}
        WHERE {pending} AND (queue, priority) > (lanes.queue, lanes.priority)
        ORDER BY queue, priority, run_at, id LIMIT 1
    ) head
)
SELECT queue, priority, {due_in} FROM lanes
"""

# The same for SQLite, which has no LATERAL and seeks by one bound at a time: the next larger
# queue, then the next smaller priority. It is told the index, since it has usually counted
# nothing by which to choose one.
_STEPWISE = """
WITH RECURSIVE queues(queue) AS (
    SELECT MIN(queue) FROM {claims} WHERE {pending}
    UNION ALL
    SELECT (SELECT MIN(queue) FROM {claims} WHERE {pending} AND queue > q.queue)
    FROM queues q WHERE q.queue IS NOT NULL
), lanes(queue, priority) AS (
    SELECT q.queue, (SELECT MAX(priority) FROM {claims} WHERE {pending} AND queue = q.queue)
    FROM queues q WHERE q.queue IS NOT NULL
    UNION ALL
    SELECT l.queue, (SELECT MAX(priority) FROM {claims}
                     WHERE {pending} AND queue = l.queue AND priority < l.priority)
    FROM lanes l WHERE l.priority IS NOT NULL
), heads(queue, priority, run_at) AS MATERIALIZED (
    SELECT l.queue, l.priority, (SELECT MIN(run_at) FROM {claims}
        WHERE {pending} AND queue = l.queue AND priority = l.priority)
    FROM lanes l WHERE l.priority IS NOT NULL
)
SELECT queue, priority, {due_in} FROM heads WHERE run_at IS NOT NULL
"""

# MySQL and MariaDB do the same by themselves for a grouping that follows the index from its
# first column, but scan for a correlated MIN or MAX. MariaDB takes columns that equal a
# constant out of the grouping, which then follows no index: so the status is a range.
_GROUPED = """
SELECT queue, priority, {due_in} FROM (
    SELECT queue, priority, MIN(run_at) AS run_at FROM {table}
    WHERE blocked = 0 AND status >= '{status}' AND status <= '{status}'
    GROUP BY blocked, status, queue, priority
) heads
"""

_STATEMENTS = {"postgresql": _BY_HEADS, "mysql": _GROUPED, "sqlite": _STEPWISE}
_DUE_IN = {
    "postgresql": "EXTRACT(EPOCH FROM run_at - STATEMENT_TIMESTAMP())",
    "mysql": "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), run_at) / 1e6",
    "sqlite": "(JULIANDAY(run_at) - JULIANDAY('now')) * 86400.0",
}


def lanes(table: str, using: str) -> list[Lane]:
    """Return the lanes of the job table in no particular order."""
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(
            _STATEMENTS[connection.vendor].format(
                table=connection.ops.quote_name(table),
                claims=f"{connection.ops.quote_name(table)} INDEXED BY leasequeue_claim",
                status=Status.PENDING.value,
                pending=f"status = '{Status.PENDING.value}' AND blocked = 0",
                due_in=_DUE_IN[connection.vendor],
            )
        )
        return [
            Lane(queue, priority, float(due))
            for queue, priority, due in cursor.fetchall()
        ]
