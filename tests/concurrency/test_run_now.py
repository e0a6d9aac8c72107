"""Run now beside claims and other people's locks."""

import pytest
from django.conf import settings

from django_leasequeue.models import Job
from django_leasequeue.transitions import run_now as running_now
from tests.factories import JobFactory
from tests.helpers import in_thread, paused
from tests.road import claim, locked, row


def run_now(*jobs):
    done = Job.objects.filter(pk__in=[job.pk for job in jobs]).run_now()
    return {kind: ids for kind, ids in done._asdict().items() if ids}


@pytest.mark.skipif(settings.DATABASE == "sqlite", reason="one lock for the whole file")
def test_178_a_locked_row_stops_nobody():
    """Nor is its lock waited for."""
    held, *others = JobFactory.create_batch(3, scheduled=True)
    with locked([held]):
        told = run_now(held, *others)
    assert told == {"busy": {held.pk}, "made_due": {job.pk for job in others}}
    assert row(held)["run_at"] == held.run_at


def test_a_job_that_is_claimed_between_the_looks():
    """Made due by somebody else and claimed: its run is left alone."""
    job = JobFactory(scheduled=True)
    with (
        paused(running_now, "_run_now") as pause,
        in_thread(lambda: run_now(job)) as one,
    ):
        pause.wait()
        run_now(job)
        assert len(claim()) == 1
        before = row(job)
        pause.resume()
        assert one.result() == {"not_waiting": {job.pk}}
    assert row(job) == before
