"""What a claim and the first jobs cost with many others in the table, in the way or not."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from django.db import connection

from benchmarks.rows import fill
from benchmarks.speed import state
from benchmarks.speed.workers import workers
from django_leasequeue.models import Job, Queue
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status
from tests.plans import watched

# Claims of each form, of which the quickest counts: what else the machine does only adds.
CLAIMS = 11


class Backlog(NamedTuple):
    """Rows that are in the table, and how a worker is told which to take.

    `fill`: adds them, given how many. `queues` and `exclude`: of the worker. `forms`: name
    and the same two, of claims that are timed one by one.
    """

    fill: Callable[[int], None]
    few: bool
    queues: str = "*"
    exclude: str = ""
    forms: tuple[tuple[str, str, str], ...] = (
        ("one queue", "default", ""),
        ("list", "default,more", ""),
        ("*", "*", ""),
        ("exclusion", "*", "more,nobody's"),
    )


def backlogs(size: int) -> dict[str, Backlog]:
    """Return the backlogs by their names; `size`: rows of the large ones."""
    many, delayed = f"{size:,}", f"{size // 10:,}"
    spread = (
        ("one queue", "q7", ""),
        ("list", "q7,q3,q5", ""),
        ("*", "*", ""),
        ("exclusion", "*", "q0,q1"),
    )
    return {
        FEW: Backlog(lambda rows: None, few=True),
        f"{many} waiting": Backlog(lambda rows: fill(rows, first=rows), few=False),
        f"{many} in 50 queues of 3 priorities": Backlog(_spread, False, forms=spread),
        f"{many} finished": Backlog(_finished, few=True),
        f"{delayed} delayed, of higher priority": Backlog(_delayed, few=True),
        f"{many} in a queue that nobody takes": Backlog(
            lambda rows: fill(rows, first=rows, queue="nobody's", priority=100),
            few=True,
            exclude="nobody's",
        ),
        f"{many} in a paused queue": Backlog(_paused, few=True),
    }


FEW = "few waiting"


def first_jobs(
    entry: dict[str, Any], backlog: Backlog, size: int, count: int, options: list[str]
) -> tuple[float, dict[str, float]]:
    """Return how many a second of the first `count` jobs start, and what claims cost.

    Of each form the milliseconds, and the index entries and rows that are looked at.
    There are `size` rows, and with `backlog.few` twice `count` that wait beside them.
    """
    state.empty()
    backlog.fill(size)
    claimed = max(count // 100, 1)
    if backlog.few:
        fill(2 * count + claimed * (CLAIMS + 1) * len(backlog.forms))
    state.analyze(state.JOBS)
    costs = {}
    for name, queues, exclude in backlog.forms:
        selection = Selection.parse(queues, exclude)
        costs[f"ms {name}"] = min(_claim(selection, claimed) for _ in range(CLAIMS))
        # Which the machine's other work does not change.
        with watched("default") as seen:
            _claim(selection, claimed)
        costs[f"looks {name}"] = float(sum(one.touched for one in seen))
    told = [f"--queues={backlog.queues}"]
    told += [f"--exclude={backlog.exclude}"] * bool(backlog.exclude)
    with workers([*options, *told], entry) as running:
        records = running.records
        running.wait_for(lambda: records.processes == 1)
        began = records.go()
        running.wait_for(lambda: records.count >= count)
        ended = sorted(when for _, when in records.all())[count - 1]
    return count / ((ended - began) / 1e9), costs


def _claim(selection: Selection, limit: int) -> float:
    """Return the milliseconds of a claim of `limit` jobs."""
    started = time.perf_counter()
    found = Job.objects.claim(selection, limit, uuid4(), "benchmark").jobs
    took = (time.perf_counter() - started) * 1000
    assert len(found) == limit, (len(found), limit)
    return took


def _spread(rows: int) -> None:
    queue = "CONCAT('q', n % 50)" if connection.vendor == "mysql" else "'q' || (n % 50)"
    fill(rows, sql={"queue": queue, "priority": "n % 3 - 1"})


def _finished(rows: int) -> None:
    now = datetime.now(UTC)
    times = {"started_at": now, "last_attempted_at": now, "finished_at": now}
    fill(rows, first=rows, status=Status.SUCCEEDED, attempts=1, result=None, **times)


def _delayed(rows: int) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    fill(rows // 10, first=rows, run_at=tomorrow, priority=50)


def _paused(rows: int) -> None:
    fill(rows, first=rows, queue="paused", priority=100)
    Queue.objects.pause("paused")
