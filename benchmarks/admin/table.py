"""A job table of a month: most jobs have succeeded, some wait, a few stand out."""

import uuid
from datetime import UTC, datetime, timedelta

from django.db import connection

from benchmarks.rows import fill
from django_leasequeue.models import Job, Queue
from django_leasequeue.states import Status

MONTH = timedelta(days=30)
# Of the table: jobs that have ended, that wait, and that run.
ENDED, WAITING, RUNNING = 0.9, 0.0999, 0.0001

_LATER = {
    "postgresql": "(sample.created_at + {n}::bigint * {step} * INTERVAL '1 microsecond')",
    "mysql": "(sample.created_at + INTERVAL {n} * {step} MICROSECOND)",
    "sqlite": (
        "STRFTIME('%Y-%m-%d %H:%M:%f000', sample.created_at, "
        "({n} * {step} / 1000000.0) || ' seconds')"
    ),
}


def build(count: int) -> None:
    """Make a table of so many jobs, and let the database count them."""
    step = int(MONTH / timedelta(microseconds=1) / count)
    began = datetime.now(UTC) - MONTH
    later = _LATER[connection.vendor].format(n="n", step=step)
    texts = _texts()
    ended = int(count * ENDED)
    status = (
        "CASE n % 100 WHEN 0 THEN 'failed' WHEN 1 THEN 'cancelled' ELSE 'succeeded' END"
    )
    common = {
        "queue": texts["queue"],
        "task": texts["task"],
        "args": texts["args"],
        "dedup_id": texts["dedup_id"],
        "group": texts["group"],
        "created_at": later,
        "run_at": later,
    }
    # Three that nothing but an index finds.
    usual = {"task": "noop", "queue": "q1", "run_at": began, "created_at": began}
    Job.objects.create(**{**usual, "task": "rare", "queue": "rare"})
    Job.objects.create(**usual, dedup_id="receipt:7")
    Job.objects.create(**usual, group="small")
    times = {"started_at": later, "last_attempted_at": later, "finished_at": later}
    scheduled = {
        "schedule": "CASE WHEN n % 1000 = 2 THEN 'nightly' END",
        "tick": f"CASE WHEN n % 1000 = 2 THEN {later} END",
    }
    fill(
        ended,
        sql={**common, **times, **scheduled, "status": status},
        created_at=began,
        status=Status.SUCCEEDED,
        finished_at=began,
        attempts=1,
        claims=1,
        worker="host:7:abc",
    )
    fill(int(count * WAITING), ended, sql=common, created_at=began)
    fill(
        max(int(count * RUNNING), 1),
        count,
        sql={**common, "started_at": later, "last_attempted_at": later},
        created_at=began,
        status=Status.RUNNING,
        processing_token=uuid.uuid4(),
        processing_until=began + MONTH * 2,
        worker="host:7:abc",
        claims=1,
    )
    Queue.objects.pause("q3", by="ann")
    with connection.cursor() as cursor:
        of = "TABLE " if connection.vendor == "mysql" else ""
        cursor.execute(f"ANALYZE {of}{Job._meta.db_table}")
        if connection.vendor == "mysql":
            cursor.fetchall()


def _texts() -> dict[str, str]:
    def joined(*parts: str) -> str:
        if connection.vendor == "mysql":
            return f"CONCAT({', '.join(parts)})"
        return " || ".join(parts)

    whole = "(n DIV 200000)" if connection.vendor == "mysql" else "(n / 200000)"
    filler = "x" * 200
    key, group = joined("'key-'", "n"), joined("'import-'", whole)
    return {
        "queue": joined("'q'", "n % 8"),
        "task": joined("'shop.tasks.task_'", "n % 24"),
        "args": joined("'[\"order-'", "n", f'\'","{filler}"]\''),
        "dedup_id": f"CASE WHEN n % 5 = 0 THEN {key} END",
        "group": f"CASE WHEN n % 10 = 0 THEN {group} END",
    }
