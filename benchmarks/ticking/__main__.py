"""Exactly one job of each tick: `python -m benchmarks.ticking --db postgres --kill`.

Eight processes tick one schedule of a second for a minute on a private, durable server. With
--kill one of them, at random, dies of SIGKILL about every two seconds, and another takes its
place. Prints a row of the table in docs/schedules.md, and exits with 1 if a tick has no job or
two.
"""

import os
import sys
import time

import django

from benchmarks import database
from benchmarks.options import parser_of
from benchmarks.ticking.crew import Crew, verdict
from django_leasequeue import clock
from tests import servers


def main(arguments=None):
    """Tick; returns the exit code."""
    parser = parser_of("ticking", __doc__)
    parser.add_argument("--db", choices=database.KINDS, default="sqlite")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args(arguments)
    servers.stop_on_signals()
    with database.database(options.db) as entry:
        env = database.environment(entry)
        os.environ.update(env)
        django.setup()
        return _run(options, env)


def _run(options, env):
    from benchmarks.ticking import schedule
    from django_leasequeue.models import Job, Schedule
    from django_leasequeue.transitions.schedule import read

    schedule.create("noop", [1])
    began = clock.now()
    crew = Crew(options.processes, env)
    try:
        crew.wait_until_ticking()
        starting = clock.now() - began
        crew.run(options.seconds, 2.0 if options.kill else None)
        # Those that still start have to make what has passed.
        over = read(Schedule.objects.all()).get().read_at
        while Schedule.objects.filter(next_tick__lte=over).exists():
            time.sleep(0.1)
    finally:
        crew.close()
    jobs = list(Job.objects.values_list("tick", "created_at"))
    wrong, late = verdict(Schedule.objects.get(), jobs, starting + 1)
    cells = (
        options.db,
        options.processes,
        f"{options.seconds:g}",
        crew.killed,
        len(jobs),
        f"{late[0] * 1000:.0f}",
        f"{late[1] * 1000:.0f}",
        len(wrong),
    )
    print("| " + " | ".join(map(str, cells)) + " |")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
