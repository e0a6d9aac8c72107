"""Six dispatchers and four workers on three ids, all the time at once."""

import os
import subprocess
import sys
import threading
from collections import Counter

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Count
from django.db.models.functions import Coalesce

from django_leasequeue import Dedup
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.transitions.settle import Verdict
from tests.helpers import DEADLINE, eventually, in_thread, together
from tests.processes import ROOT
from tests.road import claim
from tests.tasks import add

# Times as many dispatches.
TIMES = int(os.environ.get("LEASEQUEUE_TEST_ROUNDS", "1"))
DISPATCHERS, WORKERS, IDS = 6, 4, 3


def alone(key, number):
    return [Job.objects.dispatch(add, [number, 0], dedup=key)]


def inside(key, number):
    """A caller that runs its transaction again when the server has chosen it as a victim.

    On MySQL and MariaDB an insert that was lost keeps a shared lock on the id's index entry
    until the transaction ends. If the winner's job finishes meanwhile, and a third is about
    to take the id over, two of them stand in each other's way.
    """
    while True:
        try:
            with transaction.atomic():
                return alone(key, number)
        except OperationalError as error:
            if connection.vendor != "mysql" or "Deadlock" not in str(error):
                raise


def replacing(key, number):
    return [Job.objects.dispatch(add, [number, 0], dedup=Dedup(key, replace=True))]


def in_a_batch(key, number):
    specs = [add.using(dedup=f"k{n}").spec(number, 0) for n in range(IDS)]
    return Job.objects.dispatch_many(specs)


@pytest.mark.parametrize("dispatch", [alone, inside, replacing, in_a_batch])
def test_storm(dispatch):
    """No error, one run for each job, and at no instant two unfinished jobs of one id.

    No deadlock either, but for what inside() says.
    """
    each = 30 * TIMES
    stop = threading.Event()
    troubles, lost, ran = [], Counter(), Counter()
    watching = noting(troubles, lost)

    def call(number):
        returned = []
        with connection.execute_wrapper(watching):
            for turn in range(each):
                returned.extend(dispatch(f"k{turn % IDS}", number))
        return returned

    def work():
        with connection.execute_wrapper(watching):
            while not stop.is_set() or Job.objects.pending().exists():
                for job in claim(2):
                    ran[job.id] += 1
                    # Busy while a dispatch has the row.
                    assert eventually(lambda job=job: settle(job) is Verdict.WRITTEN)

    def watch():
        seen = 0
        while not stop.is_set():
            unfinished = Job.objects.filter(status__in=["pending", "running"])
            per_id = unfinished.order_by().values(
                key=Coalesce("dedup_id", "released_dedup_id")
            )
            counts = per_id.annotate(jobs=Count("id")).values_list("jobs", flat=True)
            assert max(counts, default=0) <= 1
            seen += 1
        return seen

    with in_thread(watch) as watcher:
        with in_thread(
            lambda: together(WORKERS, lambda _: work(), timeout=6 * DEADLINE)
        ) as workers:
            try:
                returned = together(DISPATCHERS, call, timeout=6 * DEADLINE)
            finally:
                stop.set()
            workers.result(2 * DEADLINE)
        assert watcher.result() > 0
    stored = set(Job.objects.values_list("pk", flat=True))
    done = [one for of_caller in returned for one in of_caller]
    assert {one.job.pk for one in done} == stored
    assert ran == Counter(dict.fromkeys(stored, 1))
    assert sum(one.added for one in done) == len(stored)
    assert not Job.objects.exclude(status="succeeded").exists()
    print(
        f"{len(done)} dispatches, {len(stored)} added, {lost['inserts']} inserts lost, "
        f"{len(troubles)} deadlocks"
    )
    if dispatch is not inside or connection.vendor != "mysql":
        assert troubles == []


@pytest.mark.skipif(settings.DATABASE == "sqlite", reason="one writer at a time")
def test_the_long_form_in_short():
    """The command of docs/dedup.md, in processes, with jobs removed as soon as they have ended."""
    asked = {"--added": 10, "--lost": 1, "--dispatchers": 2, "--workers": 1}
    options = [str(part) for pair in asked.items() for part in pair]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.dedup_storm", "--remove", *options],
        cwd=ROOT,
        # It makes and removes a database, which must not be this one.
        env={**os.environ, "LEASEQUEUE_TEST_RUN": f"storm{os.getpid()}"},
        capture_output=True,
        text=True,
        timeout=6 * DEADLINE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cells = [cell.strip() for cell in done.stdout.splitlines()[0].strip("|").split("|")]
    assert cells[:3] == [settings.DATABASE, "removed", "alone"]
    assert int(cells[4]) >= 10
    assert int(cells[5]) >= 1


def settle(job):
    return Job.objects.settle([(job, Succeeded("3"))])[0].verdict


def noting(troubles, lost):
    """An execute wrapper that keeps the server's deadlocks and counts lost inserts."""

    def wrapper(execute, sql, params, many, context):
        try:
            return execute(sql, params, many, context)
        except Exception as error:
            text = str(error).lower()
            if "deadlock" in text:
                troubles.append((sql[:200], str(error)))
            lost["inserts"] += "duplicate" in text or "unique" in text
            raise

    return wrapper
