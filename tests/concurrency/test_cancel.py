"""Cancel beside workers and other people's locks."""

import pytest
from django.conf import settings

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.transitions import cancel as cancelling
from tests.factories import JobFactory
from tests.helpers import in_thread, paused
from tests.road import claim, locked, row


def cancel(*jobs):
    done = Job.objects.filter(pk__in=[job.pk for job in jobs]).cancel()
    return {kind: ids for kind, ids in done._asdict().items() if ids}


@pytest.mark.skipif(
    settings.DATABASE == "sqlite",
    reason="one lock for the whole file",
)
def test_case_178_a_locked_row_stops_nobody():
    """500 are chosen: one is locked, one is removed meanwhile, one has just ended."""
    Job.objects.bulk_create(
        Job(task="t", queue="q", run_at=DatabaseNow(), created_at=DatabaseNow())
        for _ in range(497)
    )
    held, gone, ended = JobFactory(), JobFactory(), JobFactory()
    real = cancelling._cancel

    def changed_meanwhile(rows, ids):
        Job.objects.filter(pk=gone.pk).delete()
        end = {"status": "succeeded", "finished_at": DatabaseNow()}
        Job.objects.filter(pk=ended.pk).update(**end)
        return real(rows, ids)

    with locked([held]), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cancelling, "_cancel", changed_meanwhile)
        told = cancel(*Job.objects.all())
    assert len(told.pop("cancelled")) == 497
    assert told == {"busy": {held.pk}, "gone": {gone.pk}, "unchanged": {ended.pk}}
    assert row(held)["status"] == "pending"


def test_a_job_that_is_claimed_between_the_looks():
    """It waits when it is chosen, runs when it is looked at, and is asked."""
    job = JobFactory()
    with paused(cancelling, "_cancel") as pause, in_thread(lambda: cancel(job)) as one:
        pause.wait()
        claim()
        pause.resume()
        assert one.result() == {"requested": {job.pk}}
    assert row(job)["cancel_requested_at"] is not None


def test_a_job_that_waits_and_runs_again_while_it_is_asked():
    """Claimed again after it was found waiting: the next look asks it."""
    job = JobFactory()
    (held,) = claim()
    real, calls = cancelling._cancel, []

    def claimed_meanwhile(rows, ids):
        if calls:
            claim()
        done = real(rows, ids)
        if not calls:
            Job.objects.release(held.token)
        calls.append(ids)
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cancelling, "_cancel", claimed_meanwhile)
        assert cancel(job) == {"requested": {job.pk}}
    after = row(job)
    assert after["status"] == "running"
    assert after["cancel_requested_at"] is not None
    assert len(calls) == 2
