"""A queue under fire: `python -m benchmarks.chaos --db postgres --seconds 600`.

Two dispatchers with dedup ids and three supervisors of two children each work on a private,
durable server, while a killer strikes every second or two: SIGKILL to a child or a
supervisor, SIGSTOP past the lease, connections cut or silently dead, the database server
killed and started again, rows locked for longer than the lease. Then everybody is left alone
until all jobs have ended, and every row is checked: nothing lost, one outcome for each job, no
dedup id held twice, no more runs than recorded recoveries explain. Prints a row of the table
in docs/reliability.md and exits with 1 if anything was wrong. --seed repeats the choices; what
they meet is never quite the same.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import django

from benchmarks import database
from benchmarks.chaos.workers import Worker
from benchmarks.options import parser_of
from django_leasequeue import clock
from tests import servers

# Seconds in which all jobs must have ended once everybody is left alone, and for a stop.
PEACE, STOP = 600, 300


def main(arguments=None):
    """Run the chaos; returns the exit code."""
    parser = parser_of("chaos", __doc__)
    parser.add_argument("--db", choices=database.KINDS, default="sqlite")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    servers.stop_on_signals()
    with (
        database.served(options.db) as (entry, server),
        tempfile.TemporaryDirectory() as folder,
    ):
        tasks = json.dumps({"TASK_MODULES": ["benchmarks.tasks"]})
        os.environ.update(database.environment(entry, BENCHMARK_SETTINGS=tasks))
        django.setup()
        return _run(options, entry, server, Path(folder))


def _run(options, entry, server, folder):
    from benchmarks.chaos import verdict
    from benchmarks.chaos.killer import Killer

    with contextlib.ExitStack() as stack:
        workers = []
        for number in range(3):
            workers.append(Worker(number, entry, folder))
            stack.callback(workers[-1].close)
        dispatchers = [_dispatcher(folder, options.seed + n) for n in range(2)]
        for process in dispatchers:
            stack.callback(process.kill)
        killer = Killer(workers, server, options.seed)
        found = []
        try:
            killer.run(options.seconds)
        except AssertionError as error:
            found.append(str(error))
        killer.close()
        # The end of its standard input tells a dispatcher to stop.
        unknown = sum(
            int(process.communicate(timeout=PEACE)[0]) for process in dispatchers
        )
        left_at = clock.now()
        peace = 0 if found else PEACE
        while verdict.unfinished() and clock.now() < left_at + peace:
            time.sleep(0.2)
        seconds = clock.now() - left_at
        codes = [worker.finish(STOP) for worker in workers]
        if set(codes) != {0}:
            found.append(f"The workers exited with {codes}.")
        added = [int(line) for path in folder.glob("added-*") for line in path.open()]
        found += verdict.wrong(added)
        if found:
            for worker in workers:
                print(f"--- Worker {worker.number}:\n{worker.output()[-20000:]}")
    _print(options, killer.done, verdict.figures(), unknown, seconds, found)
    return 1 if found else 0


def _dispatcher(folder, seed):
    command = [sys.executable, "-m", "benchmarks.chaos.dispatcher"]
    return subprocess.Popen(
        [*command, folder / f"added-{seed}", str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=database.ROOT,
    )


def _print(options, blows, figures, unknown, seconds, found):
    cells = [
        options.db,
        f"{options.seconds:g}",
        figures["jobs"],
        figures["effects"],
        figures["recoveries"],
        figures["most"],
        unknown,
        ", ".join(f"{n} {blow}" for blow, n in sorted(blows.items())),
        f"{seconds:.1f}",
        len(found),
    ]
    print("| " + " | ".join(map(str, cells)) + " |")
    print(f"Seed {options.seed}.")
    for text in found[:20]:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
