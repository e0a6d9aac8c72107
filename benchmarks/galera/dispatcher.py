"""One dispatching process on one node: `python -m benchmarks.galera.dispatcher FILE SEED FOLDER`.

Dispatches until its standard input ends: one by one, in batches and in transactions, half of
them with one of a few dedup ids, for which all nodes compete; jobs with a concurrency key, whose
tasks hold locks in FOLDER; jobs of steps; and groups of jobs with one that follows. Appends to
FILE the id of each job whose dispatch was answered with "added", and prints at its end what it
has met: how many transactions of its own it ran again, how often its node was away or did not
answer in time, and all other errors.
"""

import json
import os
import random
import select
import sys
import time
from collections import Counter

import django

# Dedup ids in use, calls a second at the most, jobs of a batch and of a group, the longest job
# in seconds, and the longest step, so that some are struck in the middle.
IDS, RATE, BATCH, GROUP, LONGEST, LONGEST_STEP = 8, 40, 10, 3, 0.05, 0.5
# What a node says that is cut off from the others.
NOT_READY = 1047


class Dispatcher:
    """Dispatches at random; `seed` makes its choices."""

    def __init__(self, seed: str, locks: str):
        self.name, self.locks = seed, locks
        self.dice = random.Random(seed)
        self.number = 0
        self.again = self.away = 0
        self.errors: Counter[str] = Counter()

    def call(self):
        """Dispatch by one call; return the ids of the jobs that were added."""
        from benchmarks.tasks import chaos
        from django_leasequeue.models import Job

        kinds = [self.one, self.batch, self.inside, self.limited]
        kind = self.dice.choice([*kinds, self.stepped, self.grouped])
        return [job.pk for job, outcome in kind(Job, chaos) if outcome == "added"]

    def one(self, Job, task):
        """Dispatch one job."""
        return [Job.objects.dispatch(task, self.args(), dedup=self.dedup())]

    def batch(self, Job, task):
        """Dispatch some in a batch."""
        specs = [
            task.using(dedup=self.dedup()).spec(*self.args()) for _ in range(BATCH)
        ]
        return Job.objects.dispatch_many(specs)

    def inside(self, Job, task):
        """Dispatch in a transaction with a row of the caller's, run again if it is refused."""
        from django.db import Error, connection, transaction

        from benchmarks.models import FloorJob
        from django_leasequeue import db

        args, dedup = self.args(), self.dedup()
        while True:
            try:
                with transaction.atomic():
                    job, outcome = Job.objects.dispatch(
                        task, args, dedup=dedup, meta={"inside": True}
                    )
                    FloorJob.objects.create(args=[job.pk, outcome == "added"])
                return [(job, outcome)]
            except Error as error:
                if not db.is_passing_trouble(error, connection):
                    raise
                self.again += 1

    def limited(self, Job, task):
        """Dispatch one of which only so many may run at a time."""
        limit = self.dice.choice([1, 3])
        return Job.objects.dispatch_many([self.hold(f"key {limit}", limit)])

    def stepped(self, Job, task):
        """Dispatch one of steps."""
        from benchmarks.tasks import chaos_steps

        return [Job.objects.dispatch(chaos_steps, self.args(LONGEST_STEP))]

    def grouped(self, Job, task):
        """Dispatch a group and then, or in the same batch, the job that follows it."""
        args = self.args()
        group = f"group {self.number} of {self.name}"
        jobs = [self.hold(group, 2, group=group) for _ in range(GROUP)]
        after = task.using(after_group=group, meta={"after": group}).spec(*args)
        batches = self.dice.choice([[[*jobs, after]], [jobs, [after]]])
        return [one for batch in batches for one in Job.objects.dispatch_many(batch)]

    def hold(self, key, limit, **options):
        """Return the spec of a job of which only so many may run at a time."""
        from benchmarks.tasks import hold
        from django_leasequeue import Concurrency

        args = [self.locks, key, limit, self.dice.random() * LONGEST]
        concurrency = Concurrency(key, limit=limit)
        return hold.using(concurrency=concurrency, **options).spec(*args)

    def args(self, longest=LONGEST):
        """Return the arguments of a job: its number, and how long it takes."""
        self.number += 1
        return [self.number, round(self.dice.random() ** 3 * longest, 3)]

    def dedup(self):
        """Return a dedup id or None."""
        from django_leasequeue import Dedup

        if self.dice.random() < 0.5:
            return None
        replace = self.dice.random() < 0.2
        return Dedup(f"id {self.dice.randrange(IDS)}", replace=replace)


def main(path, seed, locks):
    """Dispatch until told to stop."""
    from django.db import Error, connection

    from django_leasequeue import clock, db
    from django_leasequeue.exceptions import DispatchConflict
    from django_leasequeue.transitions.dispatch.passes import TIME_LIMIT

    dispatcher = Dispatcher(seed, locks)
    out = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    while not select.select([sys.stdin], [], [], 0)[0]:
        began = clock.now()
        try:
            added = dispatcher.call()
        except (Error, DispatchConflict) as error:
            told = getattr(error.__cause__, "args", error.args)
            lost = db.is_connection_lost(error, connection) or told[:1] == (NOT_READY,)
            # After that long a dispatch is not run again: the machine has stood still.
            refused = isinstance(error, DispatchConflict) or db.is_passing_trouble(
                error, connection
            )
            if lost or (refused and clock.now() - began > TIME_LIMIT):
                dispatcher.away += 1
            else:
                dispatcher.errors[f"{type(error).__name__}: {told}"] += 1
            connection.close()
            time.sleep(0.3)
            continue
        os.write(out, b"".join(b"%d\n" % pk for pk in added))
        time.sleep(dispatcher.dice.uniform(0, 2 / RATE))
    told = {"again": dispatcher.again, "away": dispatcher.away}
    print(json.dumps({**told, "errors": dispatcher.errors}))


if __name__ == "__main__":
    django.setup()
    main(*sys.argv[1:])
