"""Verbs in a transaction that somebody manages by hand, with autocommit turned off.

Nobody hears of its end, so there is no on_commit; and its isolation can't be changed any more.
"""

import contextlib

import pytest
from django.db import transaction

from django_leasequeue import Dedup
from django_leasequeue.models import Job, Queue
from django_leasequeue.states import Status
from tests.factories import JobFactory
from tests.road import claim, isolation, row
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True)


@contextlib.contextmanager
def by_hand(end, level="repeatable read"):
    """A transaction, under one snapshot unless told else; `end`: commit or rollback."""
    with isolation(level):
        transaction.set_autocommit(False)
        try:
            # On SQLite a SAVEPOINT before any write would begin, and its release commit.
            Job.objects.filter(pk=0).update(priority=0)
            yield
            end()
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)


@pytest.mark.parametrize("end", [transaction.commit, transaction.rollback])
def test_what_is_done_to_jobs(end):
    """It is as the transaction: all of it or nothing, a request to a running job too."""
    traits = {
        "cancel": {"concurrency_key": "k"},
        "ask": {"leased": True},
        "retry": {"failed": True},
        "run_now": {},
        "force_release": {"leased": True},
        "remove": {},
    }
    jobs = {verb: JobFactory(**trait) for verb, trait in traits.items()}
    with by_hand(end):
        for verb, job in jobs.items():
            getattr(Job.objects.filter(pk=job.pk), verb.replace("ask", "cancel"))()
    rows = Job.objects.in_bulk()
    before = {verb: job.status for verb, job in jobs.items()}
    after = {
        verb: getattr(rows.get(job.pk), "status", "") for verb, job in jobs.items()
    }
    asked = rows[jobs["ask"].pk].cancel_requested_at is not None
    if end is transaction.rollback:
        assert (after, asked) == (before, False)
        return
    done = {"cancel": Status.CANCELLED, "retry": Status.PENDING, "remove": ""}
    assert after == before | done | {"force_release": Status.PENDING}
    assert asked


def test_dispatches_and_pauses():
    """Also what waits for a group, of which a worker's look is to tell the end."""
    options = [{}, {"dedup": "d"}, {"concurrency": "k"}, {"after_group": "g"}]
    with by_hand(transaction.commit):
        Job.objects.dispatch_many([add.using(**one).spec(1, 2) for one in options])
        for one in options:
            Job.objects.dispatch(add, (1, 2), **one)
        assert Queue.objects.pause("mail")
    assert Job.objects.count() == 2 * len(options) - 1
    assert Queue.objects.paused().get().name == "mail"
    assert Job.objects.start_after_groups().started == 2


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_a_dispatch_that_a_running_job_answers(many):
    """What it changes of that job would else wait for a commit of which nobody hears."""
    once = add.using(dedup=Dedup("d", ttl=600, until="finished", extend=True))
    job = once.dispatch(1, 2).job
    claim()
    before = row(job)
    with by_hand(transaction.commit, "read committed"):
        if many:
            [done] = Job.objects.dispatch_many([once.spec(1, 2)])
        else:
            done = once.dispatch(1, 2)
    after = row(job)
    assert (done.job.pk, done.outcome) == (job.pk, "extended")
    assert after["dedup_until"] > before["dedup_until"]
    assert after["suppressed"] == 1
