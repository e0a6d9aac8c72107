"""The lanes of the claim index: the head of each queue and priority.

All pending jobs of one queue and priority lie side by side in the claim index, by run_at;
those that are to run alone (`suspect`) have lanes of their own. A
claim reads lanes from their heads, so that it never sorts, and jobs that are not due or whose
queue is paused or nobody asked for cost one look at their lane, however many they are.

Which queues are paused is asked in the same statement: whoever looks for jobs knows it at once
and pays next to nothing for it, however seldom it looks.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from django.db import connections

from django_leasequeue.db.kept import fetched
from django_leasequeue.states import Status

# The table of models.Queue, which this floor can't import.
QUEUES = "leasequeue_queue"


class Lane(NamedTuple):
    """A queue and priority with pending jobs; `due_in`: seconds until the first is due.

    `keyed`: whether any job that may be claimed, of whatever lane, has a concurrency key. On
    MySQL and MariaDB always True: there a claim finds out at no cost.
    """

    queue: str
    priority: int
    due_in: float
    suspect: bool
    keyed: bool


# Each step asks the index for the head of the next lane: the cost is that of the lanes, not
# of their rows ("loose index scan"). The full order makes the claim index the only cheap way:
# by the queue alone the planner may take the dedup index and wade through finished rows.
# Of types that stay when a migration alters a column's: a statement that a session keeps
# must go on returning the same.
_BY_HEADS = """
WITH RECURSIVE lanes(suspect, queue, priority, run_at) AS (
    {first}
    UNION ALL
    SELECT head.* FROM lanes CROSS JOIN LATERAL ({next}) head
)
SELECT queue::text, priority::int4, ({due_in})::float8, suspect::int4, ({keyed})::int4
FROM lanes WHERE {taken}
"""
_HEAD = """
    (SELECT suspect, queue, priority, run_at FROM {table} WHERE {pending} AND {bound}
     ORDER BY suspect, queue, priority, run_at, id LIMIT 1)
"""
_NEXT = "(suspect, queue, priority) > (lanes.suspect, lanes.queue, lanes.priority)"
# Of the queues wanted alone: begun at each of them, and never left for another one.
_FIRST_OF_EACH = """
    SELECT head.* FROM (VALUES (0), (1)) kinds(suspect)
    CROSS JOIN (VALUES {wanted}) wanted(queue) CROSS JOIN LATERAL ({head}) head
"""
_OF_EACH = "suspect = kinds.suspect AND queue = wanted.queue"
_NEXT_OF_EACH = """
    suspect = lanes.suspect AND queue = lanes.queue AND priority > lanes.priority
"""

# The same for SQLite, which has no LATERAL and seeks by one bound at a time: the next larger
# queue, then the next smaller priority. It is told the index, since it has usually counted
# nothing by which to choose one.
_STEPWISE = """
WITH RECURSIVE kinds(suspect) AS (VALUES (0), (1)), queues(suspect, queue) AS (
    {queues}
), lanes(suspect, queue, priority) AS (
    SELECT q.suspect, q.queue, (SELECT MAX(priority) FROM {claims}
        WHERE {pending} AND suspect = q.suspect AND queue = q.queue)
    FROM queues q WHERE q.queue IS NOT NULL
    UNION ALL
    SELECT l.suspect, l.queue, (SELECT MAX(priority) FROM {claims} WHERE {pending}
        AND suspect = l.suspect AND queue = l.queue AND priority < l.priority)
    FROM lanes l WHERE l.priority IS NOT NULL
), heads(suspect, queue, priority, run_at) AS MATERIALIZED (
    SELECT l.suspect, l.queue, l.priority, (SELECT MIN(run_at) FROM {claims} WHERE {pending}
        AND suspect = l.suspect AND queue = l.queue AND priority = l.priority)
    FROM lanes l WHERE l.priority IS NOT NULL
)
SELECT queue, priority, {due_in}, suspect, {keyed} FROM heads
WHERE run_at IS NOT NULL AND {taken}
"""

_ALL_QUEUES = """
    SELECT k.suspect,
           (SELECT MIN(queue) FROM {claims} WHERE {pending} AND suspect = k.suspect)
    FROM kinds k
    UNION ALL
    SELECT q.suspect, (SELECT MIN(queue) FROM {claims}
                       WHERE {pending} AND suspect = q.suspect AND queue > q.queue)
    FROM queues q WHERE q.queue IS NOT NULL
"""
_WANTED_QUEUES = "SELECT suspect, wanted.column1 FROM kinds, (VALUES {wanted}) wanted"

# MySQL and MariaDB do the same by themselves for a grouping that follows the index from its
# first column, but scan for a correlated MIN or MAX. MariaDB takes columns that equal a
# constant out of the grouping, which then follows no index: so the status is a range. Of the
# queues wanted alone both kinds are named, else each lane would be looked at.
_GROUPED = """
SELECT queue, priority, {due_in}, suspect, 1 FROM (
    SELECT suspect, queue, priority, MIN(run_at) AS run_at
    FROM {table} FORCE INDEX (leasequeue_claim)
    WHERE blocked = 0 AND status >= '{status}' AND status <= '{status}' {only}
    GROUP BY blocked, status, suspect, queue, priority
) heads WHERE {taken}
"""

_DUE_IN = {
    "postgresql": "EXTRACT(EPOCH FROM run_at - STATEMENT_TIMESTAMP())",
    "mysql": "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), run_at) / 1e6",
    # To SQLite there is no time in the last half of 9999's last millisecond, nor in what is no
    # time at all: the end of its calendar, since NULL would stop the claims of all other jobs.
    "sqlite": "(COALESCE(JULIANDAY(run_at), 5373484.5) - JULIANDAY('now')) * 86400.0",
}
# In the order of its index, which is then the only cheap way. Mostly there is nothing in it.
_KEYED = """
    (SELECT concurrency_key FROM {keyed_jobs}
     WHERE {pending} AND concurrency_key IS NOT NULL
     ORDER BY blocked, concurrency_key, id LIMIT 1) IS NOT NULL
"""
# Not by a join: PostgreSQL might sort for one.
_TAKEN = f"queue NOT IN (SELECT name FROM {QUEUES} WHERE paused_at IS NOT NULL)"


def lanes(table: str, using: str, queues: Sequence[str] | None = None) -> list[Lane]:
    """Return the lanes of the job table but for paused queues, in no particular order.

    `queues`: of these alone, and those of others cost nothing; None: of every queue.
    """
    connection = connections[using]
    sql = _statement(
        connection.vendor, connection.ops.quote_name(table), len(queues or ())
    )
    return [
        Lane(queue, priority, float(due), bool(suspect), bool(keyed))
        for queue, priority, due, suspect, keyed in fetched(
            connection, sql, queues or None
        )
    ]


@lru_cache
def _statement(vendor: str, table: str, count: int) -> str:
    """Return the SQL for so many queues, whose names are its parameters; for 0: for all."""
    wanted = ", ".join(["(%s)"] * count)
    words = {
        "table": table,
        "claims": f"{table} INDEXED BY leasequeue_claim",
        "status": Status.PENDING.value,
        "pending": f"status = '{Status.PENDING.value}' AND blocked = 0",
        "due_in": _DUE_IN[vendor],
        "taken": _TAKEN,
        "wanted": wanted,
    }
    forced = f"{table} INDEXED BY leasequeue_keyed" if vendor == "sqlite" else table
    words["keyed"] = _KEYED.format(keyed_jobs=forced, **words)
    if vendor == "mysql":
        only = f"AND suspect IN (0, 1) AND queue IN ({wanted})" if count else ""
        return _GROUPED.format(only=only, **words)
    if vendor == "sqlite":
        queues = (_WANTED_QUEUES if count else _ALL_QUEUES).format(**words)
        return _STEPWISE.format(queues=queues, **words)
    if not count:
        first, following = _HEAD.format(bound="TRUE", **words), _NEXT
    else:
        head = _HEAD.format(bound=_OF_EACH, **words)
        first, following = _FIRST_OF_EACH.format(head=head, **words), _NEXT_OF_EACH
    following = _HEAD.format(bound=following, **words)
    return _BY_HEADS.format(first=first, next=following, **words)
