"""Cancel beside workers and other people's locks."""

import pytest
from django.conf import settings

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.transitions import cancel as cancelling
from tests.callers import caller
from tests.factories import JobFactory
from tests.helpers import DEADLINE, in_thread, paused
from tests.road import claim, locked, row

one_lock = pytest.mark.skipif(
    settings.DATABASE == "sqlite", reason="one lock for the whole file"
)


def cancel(*jobs):
    done = Job.objects.filter(pk__in=[job.pk for job in jobs]).cancel()
    return {kind: ids for kind, ids in done._asdict().items() if ids}


@one_lock
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


@one_lock
def test_a_job_whose_claim_is_under_way_when_it_is_asked():
    """It waits again, and somebody has taken it but not committed: the request waits."""
    job = JobFactory()
    (held,) = claim()
    with caller() as person, caller() as worker:
        person.begin()
        assert person.do(cancel, job) == {"requested": {job.pk}}
        assert Job.objects.release(held.token) == {job.pk}
        worker.begin()
        assert len(worker.do(claim)) == 1
        asking = person.start_commit()
        person.wait_until_blocked()
        worker.commit()
        asking.result(DEADLINE)
    after = row(job)
    assert after["status"] == "running"
    assert after["cancel_requested_at"] is not None
