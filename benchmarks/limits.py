"""Limits under kills: `python -m benchmarks.limits --db postgres --seconds 60`.

Four supervisors of two children each work on a private server through small jobs with
concurrency keys, while SIGKILL strikes children, supervisors and both at once. At no instant
may more jobs of a key run than its limit: by the rows, which are looked at all the time, and
by the tasks themselves, which hold locks that the kernel lets go when a process dies. In the
end every job has run, and no slot is held. Exits with 1 if anything was wrong.
"""

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import django

from benchmarks import database
from benchmarks.chaos.workers import Worker
from benchmarks.options import parser_of
from django_leasequeue import clock
from tests import servers

# By key; None is a job without one.
LIMITS = {"one": 1, "two": 2, "three": 3, "five": 5, None: None}
# Jobs a second, seconds of the longest, and between two kills.
RATE, LONGEST, PAUSE = 40, 0.1, (0.3, 1.5)
# Seconds in which all jobs must have ended once the kills are over, and for a stop.
PEACE, STOP = 600, 300
SETTINGS = json.dumps(
    {
        "TASK_MODULES": ["benchmarks.tasks"],
        # Far longer than a job, so that no process is kept for as long from going on: its
        # task would hold its lock while another runs the job by right.
        "LEASE": 20,
        "SAFETY_BUFFER": 1,
        "MAX_RECOVERIES": 1000,
    }
)


def main(arguments=None):
    """Run it; returns the exit code."""
    parser = parser_of("limits", __doc__)
    parser.add_argument("--db", choices=database.KINDS, default="sqlite")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    servers.stop_on_signals()
    with (
        database.served(options.db) as (entry, _),
        tempfile.TemporaryDirectory() as folder,
    ):
        os.environ.update(database.environment(entry, BENCHMARK_SETTINGS=SETTINGS))
        django.setup()
        return _run(options, entry, Path(folder))


def _run(options, entry, folder):
    dice = random.Random(options.seed)
    locks = folder / "locks"
    locks.mkdir()
    with contextlib.ExitStack() as stack:
        workers = []
        for number in range(4):
            workers.append(Worker(number, entry, folder, SETTINGS))
            stack.callback(workers[-1].close)
        watcher = Watcher()
        stack.callback(watcher.close)
        kills = _strike(options.seconds, workers, dice, locks)
        left_at = clock.now()
        while _unfinished() and clock.now() < left_at + PEACE:
            time.sleep(0.1)
        seconds = clock.now() - left_at
        codes = [worker.finish(STOP) for worker in workers]
        watcher.close()
        found = [] if set(codes) == {0} else [f"The workers exited with {codes}."]
        found += watcher.found + _wrong(locks)
        if found:
            for worker in workers:
                print(f"--- Worker {worker.number}:\n{worker.output()[-20000:]}")
    told = ", ".join(f"{n} {name}" for name, n in sorted(kills.items()))
    print(
        f"{options.db}: {_count()} jobs, {told}, {watcher.looks} looks, the most at a time "
        f"{dict(watcher.most)}; all had ended {seconds:.1f} s after the last kill. "
        f"Seed {options.seed}. Wrong: {len(found)}."
    )
    for text in found[:20]:
        print(text)
    return 1 if found else 0


def _strike(seconds, workers, dice, locks):
    """Dispatch and kill for so long; return how often each was done."""
    kills = Counter()
    # Not before all are at work.
    for worker in workers:
        worker.await_start(STOP)
    ends, strike_at = clock.now() + seconds, 0.0
    while clock.now() < ends:
        _dispatch(dice, locks)
        time.sleep(1 / RATE)
        for worker in workers:
            if worker.start_at is not None and worker.start_at <= clock.now():
                worker.start()
        if clock.now() < strike_at:
            continue
        strike_at = clock.now() + dice.uniform(*PAUSE)
        worker = dice.choice([one for one in workers if one.start_at is None])
        children = worker.children()
        kind = dice.choice(["child", "child", "supervisor", "family"])
        if kind != "child":
            worker.kill(clock.now() + dice.uniform(0, 1))
        elif not children:
            continue
        chosen = {"child": children[:1], "supervisor": [], "family": children}
        worker.signal(signal.SIGKILL, chosen[kind])
        kills[kind] += 1
    for worker in workers:
        if worker.start_at is not None:
            worker.start()
    return kills


def _dispatch(dice, locks):
    from benchmarks.tasks import hold
    from django_leasequeue import Concurrency

    key = dice.choice(list(LIMITS))
    limit = LIMITS[key]
    concurrency = None if key is None else Concurrency(key, limit=limit)
    door = hold.using(
        concurrency=concurrency,
        queue=dice.choice(["x", "y"]),
        priority=dice.choice([0, 0, 0, 5]),
        delay=dice.choice([0, 0, 0, 0.5]),
        max_attempts=3,
    )
    door.dispatch(str(locks), key, limit, dice.random() * LONGEST)


class Watcher:
    """Looks at the rows again and again, in a thread of its own."""

    def __init__(self):
        self.found, self.looks, self.most = [], 0, Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self):
        self._stop.set()
        self._thread.join(60)

    def _watch(self):
        from django.db import connection

        from django_leasequeue.db import DatabaseNow
        from django_leasequeue.models import Job

        try:
            while not self._stop.wait(0.005):
                running = Job.objects.running().filter(
                    processing_until__gt=DatabaseNow(), concurrency_key__isnull=False
                )
                counts = Counter(running.values_list("concurrency_key", flat=True))
                self.looks += 1
                for key, count in counts.items():
                    self.most[key] = max(self.most[key], count)
                    if count > LIMITS[key]:
                        self.found.append(f"{count} jobs of {key!r} ran at one time.")
        except Exception as error:
            self.found.append(f"The watcher failed: {error!r}.")
        finally:
            connection.close()


def _unfinished():
    from django_leasequeue.models import Job
    from django_leasequeue.states import FINAL

    return Job.objects.exclude(status__in=FINAL).count()


def _count():
    from django_leasequeue.models import Job

    return Job.objects.count()


def _wrong(locks):
    """Return what is wrong in the end, as sentences."""
    from django_leasequeue import slots
    from django_leasequeue.models import Job
    from django_leasequeue.states import Status

    found = [
        f"Job {job.pk} ended as {job.status}: {job.errors[-1:]}."
        for job in Job.objects.exclude(status=Status.SUCCEEDED)
    ]
    for key in filter(None, LIMITS):
        if held := slots.holders(Job.objects.all(), key):
            found.append(f"A slot of {key!r} is held by {held}.")
    return found + [
        f"The tasks found one too many: {line}."
        for path in locks.glob("overlaps")
        for line in path.read_text().splitlines()
    ]


if __name__ == "__main__":
    sys.exit(main())
