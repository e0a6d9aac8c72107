"""What it costs to keep leases.

    LEASEQUEUE_TEST_DB=postgres python -m tests.servers postgres -- python -m benchmarks.renewals

Renews --jobs running jobs, held by --tokens tokens, as a supervisor does at each beat, and
prints the statements of a beat, its seconds, and per job and minute with the given --lease the
statements and, on PostgreSQL, the bytes of WAL.
"""

import argparse
import json
import os
import sys
import uuid

import django


def main(arguments=None):
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.renewals")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--lease", type=float, default=300)
    parser.add_argument("--beats", type=int, default=5)
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    lease = {"LEASE": options.lease, "SAFETY_BUFFER": options.lease / 10}
    os.environ["LEASEQUEUE_TEST_SETTINGS"] = json.dumps(lease)
    django.setup()
    from django.db import connection

    usual = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        print(_row(options, connection))
    finally:
        connection.close()
        connection.creation.destroy_test_db(usual, verbosity=0)
    return 0


def _row(options, connection):
    from django_leasequeue import clock
    from django_leasequeue.models import Job
    from django_leasequeue.selection import Selection
    from tests.tasks import add

    Job.objects.dispatch_many(add.spec(1, 2) for _ in range(options.jobs))
    tokens, part = [], -(-options.jobs // options.tokens)
    for _ in range(options.tokens):
        tokens.append(uuid.uuid4())
        Job.objects.claim(Selection(), part, tokens[-1], "host:1:benchmark")
    sent = []

    def count(execute, sql, params, many, context):
        sent.append(sql)
        return execute(sql, params, many, context)

    began, wal = clock.now(), _wal(connection)
    with connection.execute_wrapper(count):
        for _ in range(options.beats):
            renewals = Job.objects.renew_all(tokens).values()
            assert not any(renewal.lost for renewal in renewals)
    seconds = (clock.now() - began) / options.beats
    statements = len(sent) / options.beats
    beats = 60 / (options.lease / 3)
    cells = [
        connection.vendor,
        options.jobs,
        options.tokens,
        f"{statements:g}",
        f"{seconds * 1000:.0f} ms",
        f"{statements * beats / options.jobs:.4f}",
    ]
    if wal is not None:
        used = (_wal(connection) - wal) / options.beats
        cells.append(f"{used * beats / options.jobs:.0f}")
    return "| " + " | ".join(map(str, cells)) + " |"


def _wal(connection):
    """Return how many bytes of WAL the server has written; None where there is no WAL."""
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
        return int(cursor.fetchone()[0])


if __name__ == "__main__":
    sys.exit(main())
