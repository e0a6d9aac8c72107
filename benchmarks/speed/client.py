"""A process that puts jobs into the table, and times it.

`python -m benchmarks.speed.client MEASURE COUNT`: warms up, acts, and prints seconds. With
`latency` it prints when each call had returned instead.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import django

CHUNK = 1000
# Past the count from which psycopg prepares a statement.
WARM = 6
# Seconds between two dispatches to an idle worker.
APART = 0.05

One = Callable[[int], object]
Many = Callable[[Iterable[int]], object]


def actions() -> tuple[dict[str, One], dict[str, Many]]:
    """Return what puts in one job of a number, and what puts in many, by measure."""
    from django.db import connection

    from benchmarks.floors import TABLE
    from benchmarks.models import FloorJob
    from benchmarks.tasks import anoop, atomic_noop, noop
    from django_leasequeue.models import Job

    insert = f"INSERT INTO {TABLE} (status, priority, args, created_at) VALUES "
    values = "(0, 0, %s, CURRENT_TIMESTAMP)"

    def with_driver(numbers: Iterable[int]) -> None:
        args = [json.dumps({"number": number}) for number in numbers]
        with connection.cursor() as cursor:
            cursor.execute(insert + ", ".join([values] * len(args)), args)

    def with_orm(numbers: Iterable[int]) -> None:
        jobs = [FloorJob(args={"number": number}) for number in numbers]
        FloorJob.objects.bulk_create(jobs)

    def row(number: int) -> Job:
        now = datetime.now(UTC)
        return Job(
            task="noop", queue="default", args=[number], run_at=now, created_at=now
        )

    def same_row(number: int) -> None:
        row(number).save(force_insert=True)  # which is what create() does

    def same_rows(numbers: Iterable[int]) -> None:
        Job.objects.bulk_create(map(row, numbers))

    def specs(task) -> Many:
        return lambda numbers: Job.objects.dispatch_many(map(task.spec, numbers))

    one: dict[str, One] = {
        "driver_one": lambda number: with_driver([number]),
        "orm_one": lambda number: FloorJob.objects.create(args={"number": number}),
        "orm_job_one": same_row,
        "dispatch_one": noop.dispatch,
        "dispatch_dedup_new": lambda number: noop.using(dedup=f"n{number}").dispatch(
            number
        ),
        "dispatch_dedup_skip": lambda number: noop.using(dedup="same").dispatch(number),
    }
    many: dict[str, Many] = {
        "driver_many": with_driver,
        "orm_many": with_orm,
        "orm_job_many": same_rows,
        "dispatch_many": specs(noop),
        "dispatch_many_async": specs(anoop),
        "dispatch_many_atomic": specs(atomic_noop),
    }
    return one, many


def main(measure: str, count: int) -> None:
    """Act and print the seconds as JSON."""
    django.setup()
    one, many = actions()
    if measure == "latency":
        print(json.dumps(apart(one["dispatch_one"], count)))
        return
    if measure in one:
        for number in range(-WARM, 0):
            one[measure](number)
        started = time.perf_counter()
        for number in range(count):
            one[measure](number)
    else:
        started = time.perf_counter()
        for start in range(0, count, CHUNK):
            many[measure](range(start, min(start + CHUNK, count)))
    print(json.dumps(time.perf_counter() - started))


def apart(dispatch: One, count: int) -> list[tuple[int, int]]:
    """Dispatch some time apart; return (number, when the call had returned)."""
    returned = []
    for number in range(count):
        dispatch(number)
        returned.append((number, time.monotonic_ns()))
        time.sleep(APART)  # the pace itself is what is asked for
    return returned


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
