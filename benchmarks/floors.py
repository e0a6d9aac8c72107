"""The floors that a queue is measured against: no lease, no retry, no promise.

`python -m benchmarks.floors driver` (or `orm`) is one worker that claims 50 jobs, runs them
and finishes them, in a loop, until it is stopped: by bare SQL, or by querysets.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import django

BATCH = 50
TABLE = "benchmarks_floorjob"
# Seconds between two looks at an empty table.
IDLE = 0.01

_HEAD = f"SELECT id, args FROM {TABLE} WHERE status = 0 ORDER BY priority DESC, id LIMIT {BATCH}"
_HEAD_IDS = _HEAD.replace("id, args", "id", 1)
_START = f"UPDATE {TABLE} SET status = 1, started_at = CURRENT_TIMESTAMP WHERE id IN"
_FINISH = f"UPDATE {TABLE} SET status = 2, finished_at = CURRENT_TIMESTAMP WHERE id IN"
_CLAIMS = {
    "postgresql": f"{_START} ({_HEAD_IDS} FOR UPDATE SKIP LOCKED) RETURNING id, args",
    "sqlite": f"{_START} ({_HEAD_IDS}) RETURNING id, args",
}

# A claim returns (id, args) pairs; a finish takes ids.
Claim = Callable[[], list[tuple[int, dict]]]
Finish = Callable[[list[int]], None]


def driver() -> tuple[Claim, Finish]:
    """Return the two steps in bare SQL on the driver's own connection."""
    from django.db import connection

    connection.ensure_connection()
    raw, vendor = connection.connection, connection.vendor

    def execute(sql: str) -> list:
        cursor = raw.cursor()
        cursor.execute(sql)
        rows = list(cursor.fetchall()) if cursor.description else []
        cursor.close()
        return rows

    def claim() -> list[tuple[int, dict]]:
        if vendor in _CLAIMS:
            rows = execute(_CLAIMS[vendor])
        else:
            execute("BEGIN")
            rows = execute(f"{_HEAD} FOR UPDATE SKIP LOCKED")
            if rows:
                execute(f"{_START} ({_listed(pk for pk, _ in rows)})")
            execute("COMMIT")
        return [(pk, _parsed(args)) for pk, args in rows]

    def finish(ids: list[int]) -> None:
        execute(f"{_FINISH} ({_listed(ids)})")

    return claim, finish


def orm() -> tuple[Claim, Finish]:
    """Return the two steps as querysets."""
    from django.db import connection, transaction

    from benchmarks.models import FloorJob

    waiting = FloorJob.objects.filter(status=0).order_by("-priority", "id")
    if connection.features.has_select_for_update_skip_locked:
        waiting = waiting.select_for_update(skip_locked=True)

    def claim() -> list[tuple[int, dict]]:
        with transaction.atomic():
            jobs = list(waiting[:BATCH])
            started = FloorJob.objects.filter(pk__in=[job.pk for job in jobs])
            if jobs:
                started.update(status=1, started_at=datetime.now(UTC))
        return [(job.pk, job.args) for job in jobs]

    def finish(ids: list[int]) -> None:
        done = FloorJob.objects.filter(pk__in=ids)
        done.update(status=2, finished_at=datetime.now(UTC))

    return claim, finish


def work(kind: str) -> None:
    """Run jobs until stopped."""
    django.setup()
    from benchmarks.record import touch

    claim, finish = {"driver": driver, "orm": orm}[kind]()
    while True:
        jobs = claim()
        for _, args in jobs:
            touch(args["number"])
        if jobs:
            finish([pk for pk, _ in jobs])
        else:
            time.sleep(IDLE)


def _listed(ids) -> str:
    return ", ".join(map(str, ids))


def _parsed(args) -> dict:
    return json.loads(args) if isinstance(args, str | bytes) else args


if __name__ == "__main__":
    work(sys.argv[1])
