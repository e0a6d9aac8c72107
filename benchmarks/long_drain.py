"""`python -m benchmarks.long_drain --n 1000000`: what a worker and its table grow to.

One worker runs as many no-op jobs as are asked for. At each tenth of them the table that is
printed gets a row: the rate since the last, the resident memory of all the worker's processes,
and on PostgreSQL the dead tuples and sizes of the job table. It stops after --seconds at the
latest. --full-pages undoes what LeaveRoom of the migrations has set, to compare.
"""

import argparse
import os
import sys

from benchmarks.database import KINDS, database, environment
from benchmarks.options import parser_of
from django_leasequeue import clock
from tests.servers import stop_on_signals

MIB = 2**20
HEAD = ["jobs", "jobs/s", "worker MiB"]
POSTGRES = ["dead tuples", "table MiB", "indexes MiB", "vacuums", "WAL B/job"]
_TABLE = """
SELECT n_dead_tup, pg_table_size(relid), pg_indexes_size(relid), autovacuum_count,
       pg_current_wal_insert_lsn() - '0/0'
FROM pg_stat_user_tables WHERE relname = %s
"""


def main(arguments: list[str]) -> int:
    """Fill, drain, print the table; return 1 if a job ran twice."""
    options = parse(arguments)
    stop_on_signals()
    with database(options.db) as entry:
        os.environ |= environment(entry)
        import django

        django.setup()
        return measure(entry, options)


def measure(entry, options) -> int:
    """Print a row for each tenth of the jobs."""
    from django.db import connection

    from benchmarks.rows import fill
    from benchmarks.speed import state
    from benchmarks.speed.measures import RUNJOBS
    from benchmarks.speed.workers import workers
    from django_leasequeue.db import usual_storage_statements

    if options.full_pages:
        for statement in usual_storage_statements(connection, state.JOBS):
            state.fetch(statement)
    fill(options.n)
    state.analyze(state.JOBS)
    head = HEAD + (POSTGRES if connection.vendor == "postgresql" else [])
    print(f"{options.db} {state.server_version()}, {options.n} jobs\n")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|", flush=True)
    with workers(RUNJOBS, entry) as running:
        records = running.records
        running.wait_for(lambda: records.processes == 1)
        ran, (_, wal) = 0, table(0, 0)
        records.go()
        last = clock.now()
        ends = last + options.seconds
        while ran < options.n and last < ends:
            wanted = min(ran + max(options.n // 10, 1), options.n)
            reached(running, wanted, ends)
            now, count = clock.now(), records.count
            more, wal = table(count - ran, wal)
            rate = f"{(count - ran) / (now - last):,.0f}"
            memory = f"{running.memory() / MIB:,.0f}"
            print(f"| {' | '.join([f'{count:,}', rate, memory, *more])} |", flush=True)
            ran, last = count, now
        numbers = [number for number, _ in records.all()]
    return int(len(numbers) != len(set(numbers)))


def reached(running, wanted: int, ends: float) -> None:
    """Return once so many jobs have started, or at `ends`. Raises NotReady."""
    running.wait_for(
        lambda: running.records.count >= wanted or clock.now() > ends,
        ends - clock.now() + 60,
    )


def table(count: int, wal: float) -> tuple[list[str], float]:
    """Return how the job table stands after `count` more jobs; and the WAL written so far."""
    from django.db import connection

    from benchmarks.speed import state

    if connection.vendor != "postgresql":
        return [], 0
    ((dead, heap, indexes, vacuums, now),) = state.fetch(_TABLE, [state.JOBS])
    sizes = [f"{size / MIB:,.0f}" for size in (heap, indexes)]
    per_job = f"{(float(now) - wal) / max(count, 1):,.0f}"
    return [f"{dead:,}", *sizes, str(vacuums), per_job], float(now)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = parser_of("long_drain", __doc__)
    add = parser.add_argument
    add("--db", choices=KINDS, default="postgres", help="postgres")
    add("--n", type=int, default=1_000_000, help="jobs (1000000)")
    add("--seconds", type=float, default=900.0, help="stop after so many (900)")
    add("--full-pages", action="store_true", help="pages are filled up (PostgreSQL)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
