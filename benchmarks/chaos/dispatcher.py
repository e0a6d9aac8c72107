"""One dispatching process: `python -m benchmarks.chaos.dispatcher FILE SEED`.

Dispatches jobs, half of them with one of a few dedup ids, until its standard input ends, and
appends to FILE the id of each job whose dispatch was answered with "added". A dispatch whose
connection is lost may have stored its job or not: such are counted, not told.
"""

import os
import random
import select
import sys
import time

import django

# Dedup ids in use, jobs a second at the most, and the longest job, in seconds.
IDS, RATE, LONGEST = 20, 15, 1.5


def main(path, seed):
    """Dispatch until told to stop; print how many answers were lost."""
    from django.db import Error, connection

    from benchmarks.tasks import chaos
    from django_leasequeue.exceptions import DispatchConflict
    from django_leasequeue.models import Job

    dice = random.Random(int(seed))
    out = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    number = unknown = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        number += 1
        dedup = f"id {dice.randrange(IDS)}" if dice.random() < 0.5 else None
        args = [number, round(dice.random() ** 3 * LONGEST, 2)]
        try:
            job, outcome = Job.objects.dispatch(chaos, args, dedup=dedup)
        except (Error, DispatchConflict):
            unknown += 1
            connection.close()
            time.sleep(0.3)
            continue
        if outcome == "added":
            os.write(out, f"{job.pk}\n".encode())
        time.sleep(dice.uniform(0, 2 / RATE))
    print(unknown)


if __name__ == "__main__":
    django.setup()
    main(*sys.argv[1:])
