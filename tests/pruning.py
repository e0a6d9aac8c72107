"""A process that prunes and stops in the middle of a step. Run by crash/test_prune.py.

It takes the duty as a worker does, says "deleted" on its standard output when the second
step's rows are deleted and not committed, and then waits for a line.
"""

import sys

import django


def main():
    from django_leasequeue.db import removal
    from django_leasequeue.models import Job
    from django_leasequeue.transitions import prune
    from django_leasequeue.worker.pruner import Pruner

    prune.ROWS = 5
    delete, calls = removal.delete, []

    def held(rows):
        done = delete(rows)
        if rows.model is not Job:
            return done
        calls.append(done)
        if len(calls) == 2:
            print("deleted", flush=True)
            sys.stdin.readline()
        return done

    removal.delete = held
    Pruner("default", "host:0")._look()


if __name__ == "__main__":
    django.setup()
    main()
