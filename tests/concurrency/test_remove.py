"""Removing jobs beside claims and other people's locks."""

import pytest
from django.conf import settings

from django_leasequeue.db import removal
from django_leasequeue.models import Job
from django_leasequeue.transitions import remove as removing
from tests.factories import JobFactory
from tests.helpers import in_thread, paused, together
from tests.road import claim, claim_under_way, ids, locked, row, table

one_lock = pytest.mark.skipif(
    settings.DATABASE == "sqlite", reason="one lock for the whole file"
)


def remove(*jobs):
    done = Job.objects.filter(pk__in=ids(jobs)).remove()
    return {kind: found for kind, found in done._asdict().items() if found}


@one_lock
def test_178_a_locked_row_stops_nobody():
    """Nor is its lock waited for."""
    held, *others = JobFactory.create_batch(3, failed=True)
    with locked([held]):
        told = remove(held, *others)
    assert told == {"busy": {held.pk}, "removed": set(ids(others))}
    assert set(table()) == {held.pk}


def test_a_job_that_is_claimed_after_it_was_chosen():
    """As between the page that asks and its answer: it runs, and stays."""
    job = JobFactory()
    with paused(removing, "_remove") as pause, in_thread(lambda: remove(job)) as one:
        pause.wait()
        [held] = claim()
        before = row(job)
        pause.resume()
        assert one.result() == {"running": {job.pk}}
    assert row(job) == before
    assert Job.objects.renew(held.token).renewed == {job.pk}


@one_lock
def test_a_job_whose_claim_is_under_way():
    """The claim has its lock: it comes first, and the job stays."""
    job = JobFactory(priority=1)
    with claim_under_way() as pause, in_thread(claim) as claiming:
        pause.wait()
        assert remove(job) == {"busy": {job.pk}}
        pause.resume()
        assert job.pk in ids(claiming.result())
    assert row(job)["status"] == "running"


@one_lock
def test_a_claim_while_it_is_being_removed():
    """The removal has its lock: it comes first, and the claim passes it over."""
    job, other = JobFactory(priority=1), JobFactory()
    with (
        paused(removal, "delete_leftovers", after=True) as pause,
        in_thread(lambda: remove(job)) as one,
    ):
        pause.wait()
        assert ids(claim()) == [other.pk]
        pause.resume()
        assert one.result() == {"removed": {job.pk}}
    assert set(table()) == {other.pk}


def test_claimed_or_removed_and_never_both():
    """Four that claim and two that remove the same rows: each goes one way, as it is told."""
    jobs = JobFactory.create_batch(60)
    chosen = set(ids(jobs))

    def work(number):
        if number < 4:
            return set().union(*(ids(claim(3)) for _ in range(6)))
        told = remove(*(jobs if number == 4 else jobs[::-1]))
        return told.get("removed", set())

    found = together(6, work)
    claimed, removed = set().union(*found[:4]), set().union(*found[4:])
    assert sum(map(len, found)) == len(claimed | removed)
    assert set(table()) == chosen - removed
    assert set(Job.objects.running().values_list("pk", flat=True)) == claimed
