"""A process that prunes and stops in the middle of a step. Run by crash/test_prune.py.

It takes the duty as a worker does, says "deleted" on its standard output when the second
step's rows are deleted and not committed, and then waits for a line.
"""

import sys

import django
from django.db.models import QuerySet


def main():
    from django_leasequeue.transitions import prune
    from django_leasequeue.worker.pruner import Pruner

    prune.ROWS = 5
    delete, calls = QuerySet.delete, []

    def held(rows):
        done = delete(rows)
        calls.append(done)
        if len(calls) == 2:
            print("deleted", flush=True)
            sys.stdin.readline()
        return done

    QuerySet.delete = held
    Pruner("default", "host:0")._look()


if __name__ == "__main__":
    django.setup()
    main()
