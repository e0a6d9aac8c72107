"""What wake-ups cost those that dispatch: `python -m benchmarks.wakeups`, on PostgreSQL.

Some processes insert jobs as fast as they can, by the statement of a dispatch and nothing
else. Meanwhile the triggers that wake workers are switched on and off in turn, so that what
else the machine does meets both alike. Prints the rates, the median of the ratios of
neighbouring turns, and how many of the inserts notified, which depends less on the machine:
with no worker, with workers of another queue, which stay idle whatever comes, and with workers
that run what comes. `--always` shows what a NOTIFY for every insert would cost.

Before that, how soon an idle worker starts a job after its dispatch has returned, beside how
soon a bare driver that listens has heard of a bare NOTIFY, in turn.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from typing import Any

from benchmarks.database import database, environment
from benchmarks.options import parser_of
from tests.server_programs import ServerMissing
from tests.servers import ServerFailed, stop_on_signals

WORKERS = {"no worker": None, "idle": "another", "draining": "*"}
# Seconds after the triggers were switched that are not counted.
SETTLING = 0.2
# Seconds before each pick-up, and jobs before the first one.
APART, WARM = 0.05, 6
CHANNEL = "benchmark"


def main(arguments: list[str]) -> int:
    """Measure, print the table, and return the exit code."""
    options = parse(arguments)
    stop_on_signals()
    try:
        with database("postgres") as entry:
            os.environ |= environment(entry)
            measure(entry, options)
    except (ServerMissing, ServerFailed) as error:
        sys.exit(str(error))
    return 0


def measure(entry: dict[str, Any], options: argparse.Namespace) -> None:
    """Print a row for each kind of workers."""
    import django

    django.setup()
    from benchmarks.speed.measures import RUNJOBS
    from benchmarks.speed.workers import workers

    if options.pick_ups:
        print("| after it was sent | median ms | p99 ms |\n|---|---|---|")
        for name, waits in pick_ups(entry, options.pick_ups).items():
            cells = [name, f"{statistics.median(waits):.2f}", f"{p99(waits):.2f}"]
            print(f"| {' | '.join(cells)} |", flush=True)
        print()
    if not options.turns:
        return
    insert = statement()
    print("| workers | off | on | on : off | notified |\n|---|---|---|---|---|")
    for kind, queues in WORKERS.items():
        count = options.workers if queues else 0
        with workers([*RUNJOBS, f"--queues={queues}"], entry, count) as running:
            running.records.go()
            ready(count)
            off, on, notified = turns(entry, insert, options)
        ratio = statistics.median(b / a for a, b in zip(off, on, strict=True))
        rates = [f"{statistics.median(rate):,.0f}/s" for rate in (off, on)]
        cells = [kind, *rates, f"{ratio:.2f}", f"{notified:.1%}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def pick_ups(entry: dict[str, Any], count: int) -> dict[str, list[float]]:
    """Return the milliseconds until a NOTIFY was heard, and until a job had started."""
    import psycopg

    from benchmarks.speed.measures import RUNJOBS
    from benchmarks.speed.workers import workers
    from benchmarks.tasks import noop

    context = multiprocessing.get_context("spawn")
    heard, told = context.Pipe(duplex=False)
    ear = context.Process(target=listen_for_ever, args=(entry, told), daemon=True)
    ear.start()
    heard.recv()
    notified, returned = [], {}
    with (
        workers(RUNJOBS, entry) as running,
        psycopg.connect(**place(entry), autocommit=True) as connection,
    ):
        records = running.records
        records.go()
        for number in range(-WARM, 0):
            noop.dispatch(number)
        running.wait_for(lambda: records.count == WARM)
        for number in range(count):
            time.sleep(APART)
            noop.dispatch(number)
            returned[number] = time.monotonic_ns()
            time.sleep(APART)
            connection.execute(f"NOTIFY {CHANNEL}")
            sent = time.monotonic_ns()
            notified.append((heard.recv() - sent) / 1e6)
        running.wait_for(lambda: records.count == WARM + count)
        started = dict(records.all())
    ear.terminate()
    ear.join()
    jobs = [(started[number] - at) / 1e6 for number, at in returned.items()]
    return {"bare NOTIFY": notified, "a job of an idle worker": jobs}


def listen_for_ever(entry: dict[str, Any], told) -> None:
    """Tell the time of each notification, after one of being ready."""
    import psycopg

    with psycopg.connect(**place(entry), autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        told.send(time.monotonic_ns())
        for _ in connection.notifies():
            told.send(time.monotonic_ns())


def place(entry: dict[str, Any]) -> dict[str, Any]:
    """Return where the database is, for the driver."""
    names = {"host": "HOST", "port": "PORT", "user": "USER", "dbname": "NAME"}
    return {word: entry[name] for word, name in names.items()}


def p99(waits: list[float]) -> float:
    """Return what all but one of a hundred stay below."""
    return sorted(waits)[max(int(len(waits) * 0.99) - 1, 0)]


def turns(entry, insert, options) -> tuple[list[float], list[float], float]:
    """Return the rates with the triggers off and on, and the share that notified."""
    context = multiprocessing.get_context("spawn")
    counters = [context.Value("q", 0) for _ in range(options.dispatchers)]
    stop = context.Event()
    processes = [
        context.Process(
            target=insert_for_ever, args=(entry, insert, counter, stop), daemon=True
        )
        for counter in counters
    ]
    for process in processes:
        process.start()
    rates: dict[str, list[float]] = {"DISABLE": [], "ENABLE": []}
    inserts = notified = 0
    ear = Ear(options.always)
    try:
        while not all(counter.value for counter in counters):
            time.sleep(0.01)
        for _ in range(options.turns):
            for switch, found in rates.items():
                run(f"ALTER TABLE leasequeue_job {switch} TRIGGER USER")
                time.sleep(SETTLING)
                ear.heard()
                before, began = sum(c.value for c in counters), time.perf_counter()
                time.sleep(options.seconds)
                done = sum(c.value for c in counters) - before
                found.append(done / (time.perf_counter() - began))
                if switch == "ENABLE":
                    inserts, notified = inserts + done, notified + ear.heard()
    finally:
        stop.set()
        for process in processes:
            process.join()
        ear.close()
    run("TRUNCATE leasequeue_job")
    return rates["DISABLE"], rates["ENABLE"], notified / inserts


class Ear:
    """Hears every notification; `always`: and waits for them, as a worker would."""

    def __init__(self, always: bool) -> None:
        from django.db import connections

        from django_leasequeue import db

        # A wrapper of its own: the default one is this process's for statements.
        self._connection = connections["direct"]
        self._line = db.Line("direct", "leasequeue_job", 3600)
        if always:
            self._line.wait()

    def heard(self) -> int:
        """Return how many have come since the last call."""
        self._line.check()
        return self._line.hear()

    def close(self) -> None:
        """Listen no more."""
        self._connection.close()


def insert_for_ever(entry, insert, counter, stop) -> None:
    """Insert jobs one by one until told to stop."""
    import psycopg

    with psycopg.connect(**place(entry), autocommit=True) as connection:
        while not stop.is_set():
            connection.execute(*insert, prepare=True)
            counter.value += 1


def statement() -> tuple[str, tuple]:
    """Return the INSERT that a dispatch sends, and its parameters."""
    from django.db import connection

    from benchmarks.tasks import noop

    seen = []

    def wrapper(execute, sql, params, many, context):
        seen.append((sql, tuple(params or ())))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrapper):
        noop.dispatch(0)
    return next(one for one in seen if one[0].startswith("INSERT"))


def ready(count: int) -> None:
    """Wait until so many workers are there."""
    from django_leasequeue.models import Worker

    while Worker.objects.count() < count:
        time.sleep(0.05)


def run(sql: str) -> None:
    """Run a statement in this process's own session."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = parser_of("wakeups", __doc__)
    add = parser.add_argument
    add("--dispatchers", type=int, default=8, help="processes that insert (8)")
    add("--workers", type=int, default=2, help="workers of one process each (2)")
    add("--always", action="store_true", help="have every insert notify")
    add("--pick-ups", type=int, default=100, help="of each kind; 0 for none (100)")
    add("--turns", type=int, default=10, help="pairs of turns (10)")
    add("--seconds", type=float, default=1.0, help="of each turn (1)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
