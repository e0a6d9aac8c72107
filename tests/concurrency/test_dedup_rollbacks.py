"""Very many callers, very many ids, and transactions that are rolled back at random."""

import os
import random
from collections import defaultdict

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from django_leasequeue import db
from django_leasequeue.models import Job
from tests.helpers import DEADLINE, together
from tests.tasks import add

pytestmark = pytest.mark.skipif(
    settings.DATABASE == "sqlite", reason="no row locks: whoever writes is alone"
)

# 50 times as many ids are the 10,000 of the long run.
TIMES = int(os.environ.get("LEASEQUEUE_TEST_ROUNDS", "1"))
CALLERS, IDS = 64, 200 * TIMES
# How many of the callers want each id.
RIVALS = 6 if TIMES == 1 else 2


class ChangedMind(Exception):
    pass


def test_one_job_an_id_whoever_rolls_back():
    """Each id is wanted by several; a third of the transactions come to nothing."""

    def call(number):
        dice = random.Random(number)
        told, rolled_back, again = [], 0, 0
        wanted = [n for n in range(IDS) if dice.randrange(CALLERS) < RIVALS]
        # In nearly one order, so that they meet.
        wanted.sort(key=lambda n: n + dice.randrange(20))
        while wanted:
            some = sorted(wanted[: dice.randint(1, 3)])
            fails = dice.random() < 1 / 3
            try:
                with transaction.atomic():
                    done = [
                        Job.objects.dispatch(add, [n, 0], dedup=f"k{n}") for n in some
                    ]
                    if fails:
                        raise ChangedMind
            except ChangedMind:
                rolled_back += 1
            except OperationalError as error:
                # The caller runs it again, as docs/dedup.md says.
                assert db.is_passing_trouble(error, connection)
                again += 1
                continue
            else:
                told += zip(some, done, strict=True)
            del wanted[: len(some)]
        return told, rolled_back, again

    results = together(CALLERS, call, timeout=6 * DEADLINE * max(1, TIMES / 10))
    jobs = {job.dedup_id: job.pk for job in Job.objects.all()}
    assert len(jobs) == Job.objects.count()
    answers = defaultdict(list)
    for told, _, _ in results:
        for number, done in told:
            answers[f"k{number}"].append(done)
    # Whoever was told of a job has committed, and so have those who were told before it.
    assert set(answers) == set(jobs)
    for key, of_id in answers.items():
        assert {done.job.pk for done in of_id} == {jobs[key]}
        assert [done.added for done in of_id].count(True) == 1
    rolled_back = sum(one for _, one, _ in results)
    again = sum(one for _, _, one in results)
    count = sum(map(len, answers.values()))
    print(
        f"{CALLERS} callers, {IDS} ids: {count} dispatches committed, {len(jobs)} added, "
        f"{rolled_back} transactions rolled back, {again} run again by the caller"
    )
    assert rolled_back
