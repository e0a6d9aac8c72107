"""What a worker costs that has nothing to do: `python -m benchmarks.idle`.

One worker with default settings, a supervisor and a child, on a private server, once all is
over that happens at its start. Prints the statements a second that the server has counted, and
what the worker's processes and the server took of one core: the server's share with the
worker, and without any, since it has work of its own. Needs /proc.
"""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.database import served
from benchmarks.options import parser_of
from benchmarks.speed.workers import workers
from django_leasequeue import clock
from tests.server_programs import ServerMissing
from tests.servers import ServerFailed, stop_on_signals

KINDS = ("postgres", "mariadb", "mysql")
# Both statements count themselves, on one of the two reads of a difference.
COUNTED = {
    "postgres": "SELECT 0, sum(calls) FROM pg_stat_statements",
    "mariadb": "SHOW GLOBAL STATUS LIKE 'Questions'",
    "mysql": "SHOW GLOBAL STATUS LIKE 'Questions'",
}
ENTERED = "SELECT 1 FROM leasequeue_worker"


def main(arguments: list[str]) -> int:
    """Measure, print the table, and return the exit code."""
    options = parse(arguments)
    stop_on_signals()
    print("| server | statements/s | worker | server beside it | server alone |")
    print("|---|---|---|---|---|", flush=True)
    for kind in options.db:
        try:
            with served(kind) as (entry, server):
                cells = measure(kind, entry, server.process.pid, options)
        except (ServerMissing, ServerFailed) as error:
            sys.exit(str(error))
        print(f"| {' | '.join([kind, *cells])} |", flush=True)
    return 0


def measure(
    kind: str, entry: dict[str, Any], server: int, options: argparse.Namespace
) -> list[str]:
    """Return the cells of a server's row; `server`: its process."""
    seconds = options.seconds
    with connected(kind, entry) as cursor:
        _, alone = over(seconds, cursor, kind, [server])
        with workers(["django", "runjobs", "--verbosity=0"], entry) as running:
            running.wait_for(lambda: cursor.execute(ENTERED) and cursor.fetchone())
            time.sleep(options.settling)
            [worker] = running.pids
            statements, shares = over(seconds, cursor, kind, [worker, server])
    return [f"{statements:.2f}", *(f"{share:.2%}" for share in [*shares, *alone])]


def over(seconds: float, cursor, kind: str, roots: list[int]) -> tuple[float, list]:
    """Return the statements a second, and what each tree of processes took of a core."""
    began, counted = clock.now(), count(cursor, kind)
    before = [processor_seconds(root) for root in roots]
    time.sleep(seconds)  # the time itself is what is asked for
    after = [processor_seconds(root) for root in roots]
    counted, took = count(cursor, kind) - counted - 1, clock.now() - began
    return counted / took, [(b - a) / took for a, b in zip(before, after, strict=True)]


def processor_seconds(root: int) -> float:
    """Return what a process and all below it have taken, those that ended included."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(ticks.get(pid, 0) for pid in tree) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def connected(kind: str, entry: dict[str, Any]) -> Iterator[Any]:
    """Yield a cursor of the driver's own that may read what the server has counted."""
    place = {"host": entry["HOST"], "port": int(entry["PORT"]), "user": entry["USER"]}
    if kind == "postgres":
        import psycopg

        with psycopg.connect(dbname=entry["NAME"], autocommit=True, **place) as one:
            one.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            yield one.cursor()
        return
    import MySQLdb

    place["database"] = entry["NAME"]
    with contextlib.closing(MySQLdb.connect(autocommit=True, **place)) as other:
        yield other.cursor()


def count(cursor, kind: str) -> int:
    """Return how many statements the server has had."""
    cursor.execute(COUNTED[kind])
    return int(cursor.fetchone()[1])


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = parser_of("idle", __doc__)
    add = parser.add_argument
    add("--db", nargs="+", choices=KINDS, default=KINDS, help="servers (all of them)")
    add("--seconds", type=float, default=60.0, help="of each measurement (60)")
    # On MySQL and MariaDB a worker looks more often in its first ten seconds.
    until = "from the worker's start until what happens once is over, in seconds (20)"
    add("--settling", type=float, default=20.0, help=until)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
