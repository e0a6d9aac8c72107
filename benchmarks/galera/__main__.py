"""A queue on a cluster: `python -m benchmarks.galera --seconds 300 --kill-nodes`.

Three MariaDB servers with Galera are one database, of which each takes writes: what changes
the same row on two of them is told to one only at its COMMIT. A dispatcher on each node,
alone, in batches and in transactions, with dedup ids for which all compete, and a worker on
each, which makes the jobs of a schedule, too. Processes of workers are killed; with
--kill-nodes also the nodes themselves, and some are cut off from the others for a while. Then
everybody is left alone until all jobs have ended, and every row is checked as
`benchmarks.chaos` does. Besides:

- no error but those that docs/reliability.md names was raised into a caller;
- what a caller wrote in its transaction and the job that it dispatched are both there or neither;
- no more jobs of a concurrency key ran at a time than may;
- a job that follows a group started after the last of the group had ended;
- of each step the last run is the one that was stored, and later ones of the job went by it;
- each tick of the schedule has one job;
- all nodes hold the same rows.

Prints a row of the table there and exits with 1 if anything was wrong or the machine has no
Galera.
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
from benchmarks.galera import cluster
from benchmarks.options import parser_of
from django_leasequeue import clock
from tests import machine, servers
from tests.server_programs import ServerMissing

# Seconds in which all jobs must have ended once everybody is left alone, and for a stop.
PEACE, STOP = 600, 300
SETTINGS = json.dumps({"TASK_MODULES": ["benchmarks.tasks"]})


def main(arguments=None):
    """Run it; returns the exit code."""
    parser = parser_of("galera", __doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kill-nodes", action="store_true")
    parser.add_argument("--no-kills", action="store_true", help="nobody is killed")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    servers.stop_on_signals()
    try:
        machine.server_program("mariadb")
        galera = machine.galera()
    except ServerMissing as missing:
        sys.exit(str(missing))
    with (
        cluster.running(galera, patient=options.no_kills) as nodes,
        tempfile.TemporaryDirectory() as folder,
    ):
        entries = [database.server_entry("mariadb", node.url) for node in nodes]
        database.create("mariadb", entries[0])
        database.migrate(entries[0])
        os.environ.update(database.environment(entries[0], BENCHMARK_SETTINGS=SETTINGS))
        django.setup()
        return _run(options, nodes, entries, Path(folder))


def _run(options, nodes, entries, folder):
    from django.db import connections

    from benchmarks.chaos import verdict as of_chaos
    from benchmarks.galera import verdict
    from benchmarks.galera.blows import ClusterKiller
    from benchmarks.ticking import schedule
    from django_leasequeue.models import Schedule

    schedule.create("chaos", [0, 0])
    with contextlib.ExitStack() as stack:
        workers = []
        for number, entry in enumerate(entries):
            # Where nobody is killed no lease need end, however busy the machine is.
            own = {"settings": SETTINGS} if options.no_kills else {}
            workers.append(Worker(number, entry, folder, **own))
            stack.callback(workers[-1].close)
        for worker in workers:
            worker.await_start(STOP)
        dispatchers = [
            _dispatcher(entry, folder, f"{options.seed}-{number}")
            for number, entry in enumerate(entries)
        ]
        for process in dispatchers:
            stack.callback(process.kill)
        found = []
        killer = ClusterKiller(
            workers, nodes if options.kill_nodes else [], options.seed
        )
        try:
            if options.no_kills:
                time.sleep(options.seconds)
            else:
                killer.run(options.seconds)
        except AssertionError as error:
            found.append(str(error))
        killer.close()
        # The end of its standard input tells a dispatcher to stop.
        told = [json.loads(one.communicate(timeout=PEACE)[0]) for one in dispatchers]
        connections.close_all()
        with connections["default"].cursor() as cursor:
            # From now on each read waits until this node has what the others have committed.
            cursor.execute("SET SESSION wsrep_sync_wait = 1")
        Schedule.objects.all().pause()
        left_at = clock.now()
        while of_chaos.unfinished() and clock.now() < left_at + PEACE and not found:
            time.sleep(0.2)
        seconds = clock.now() - left_at
        codes = [worker.finish(STOP) for worker in workers]
        if set(codes) != {0}:
            found.append(f"The workers exited with {codes}.")
        added = [int(line) for path in folder.glob("added-*") for line in path.open()]
        found += of_chaos.wrong(added)
        logs = [worker.output() for worker in workers]
        found += verdict.wrong(told, logs, nodes, folder)
        if found:
            for worker, log in zip(workers, logs, strict=True):
                print(f"--- Worker {worker.number}:\n{log[-20000:]}")
    figures = of_chaos.figures() | verdict.figures(told, nodes)
    _print(options, killer.done, figures, seconds, found)
    return 1 if found else 0


def _dispatcher(entry, folder, seed):
    command = [sys.executable, "-m", "benchmarks.galera.dispatcher"]
    return subprocess.Popen(
        [*command, folder / f"added-{seed}", seed, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=database.ROOT,
        env=database.environment(entry),
    )


def _print(options, blows, figures, seconds, found):
    cells = [
        f"{options.seconds:g}",
        figures["jobs"],
        figures["steps"],
        figures["groups"],
        figures["ticks"],
        figures["recoveries"],
        figures["skipped"],
        figures["refused"],
        figures["again"],
        figures["away"],
        ", ".join(f"{n} {blow}" for blow, n in sorted(blows.items())) or "none",
        f"{seconds:.1f}",
        len(found),
    ]
    print("| " + " | ".join(map(str, cells)) + " |")
    print(f"Seed {options.seed}.")
    for text in found[:20]:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
