"""Renewals beside recoveries, outcomes and other people's locks."""

import threading

import pytest
from django.db import connection  # noqa: F401 - for the skips

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.states import Status
from django_leasequeue.transitions.renew import Renewal
from django_leasequeue.transitions.settle import Verdict
from tests.factories import JobFactory
from tests.helpers import run_together
from tests.road import claim, ids, locked, outrun_by_its_lease, row

has_row_locks = pytest.mark.skipif(
    "not connection.features.has_select_for_update",
    reason="one lock for the whole file",
)
ROUNDS = 15
NOBODY = set()


def held(count=1):
    """Jobs that this worker holds by one token."""
    JobFactory.create_batch(count)
    return claim()


def end_lease(job, seconds=-1):
    Job.objects.filter(pk=job.id).update(processing_until=DatabaseNow(seconds))


def test_recovery_before_renewal():
    """The job is another's: the old token renews nothing, the new one does."""
    [late] = held()
    end_lease(late)
    [again] = claim()
    assert Job.objects.renew(late.token) == Renewal(NOBODY, NOBODY, NOBODY)
    assert Job.objects.renew(again.token).renewed == {late.id}


def test_renewal_before_recovery():
    """A lease that was renewed in time is nobody else's."""
    [job] = held()
    end_lease(job, 60)
    assert Job.objects.renew(job.token).renewed == {job.id}
    assert claim() == []


def test_renewal_and_recovery_at_the_lease_end(settings):
    """At the very moment when the lease ends, exactly one of the two gets the job.

    Fails with a renewal that does not look at the lease's end.
    """
    settings.LEASEQUEUE = {"LEASE": 300, "SAFETY_BUFFER": 0}
    for turn in range(ROUNDS):
        [job] = held()
        end_lease(job, 0.001 * turn)
        renewal, again = run_together(
            [lambda job=job: Job.objects.renew(job.token), claim]
        )
        after = row(job)
        if renewal.renewed:
            assert again == []
            assert (after["processing_token"], after["recoveries"]) == (job.token, 0)
        else:
            again = again or claim()
            assert ids(again) == [job.id]
            assert row(job)["processing_token"] == again[0].token
        assert not renewal.busy
        Job.objects.all().delete()


@has_row_locks
def test_lease_ends_while_the_renewal_is_on_its_way(settings):
    """Locked in time, but the update comes too late: lost, and then another's."""
    settings.LEASEQUEUE = {"LEASE": 300, "SAFETY_BUFFER": 0}
    job, renewal = outrun_by_its_lease(
        lambda: held()[0], lambda job: Job.objects.renew(job.token)
    )
    assert renewal == Renewal(NOBODY, {job.id}, NOBODY)
    assert ids(claim()) == [job.id]


@has_row_locks
def test_busy_rows_hold_up_no_others():
    """A job whose row is locked is told as busy, and its neighbours are renewed meanwhile.

    Fails, by the deadline, without SKIP LOCKED.
    """
    first, busy, last = held(3)
    for job in (first, busy, last):
        end_lease(job, 100)
    before = row(busy)
    with locked([busy]):
        found = Job.objects.renew(busy.token)
        assert found == Renewal({first.id, last.id}, NOBODY, {busy.id})
        assert row(busy) == before
    assert Job.objects.renew(busy.token).renewed == {first.id, busy.id, last.id}


@has_row_locks
def test_locked_and_past_is_lost():
    """A lease that has ended is lost, locked or not."""
    [job] = held()
    end_lease(job)
    with locked([job]):
        assert Job.objects.renew(job.token) == Renewal(NOBODY, {job.id}, NOBODY)


def test_renewal_beside_outcomes():
    """A keeper renews on and on while outcomes are written: none is lost, none is delayed."""
    jobs = held(30)
    token = jobs[0].token
    stop = threading.Event()

    def keep():
        lost = set()
        while not stop.is_set():
            lost |= Job.objects.renew(token).lost
        return lost

    def settle():
        try:
            for job in jobs:
                while True:
                    [settled] = Job.objects.settle([(job, Succeeded())])
                    if settled.verdict is not Verdict.BUSY:
                        break
                assert settled.verdict is Verdict.WRITTEN
        finally:
            stop.set()

    lost, _ = run_together([keep, settle])
    assert lost == set()
    assert set(Job.objects.values_list("status", flat=True)) == {Status.SUCCEEDED}
