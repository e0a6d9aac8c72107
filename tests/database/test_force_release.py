"""Force release: a running job is taken from its worker, which can write nothing any more."""

import datetime as dt

from asgiref.sync import async_to_sync

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.states import Status
from django_leasequeue.transitions import force_release as releasing
from tests.factories import JobFactory
from tests.road import claim, ids, row, table


def force_release(*jobs):
    done = Job.objects.filter(pk__in=ids(jobs)).force_release()
    return {kind: found for kind, found in done._asdict().items() if found}


def test_a_running_job_waits_again():
    """Due at once; no attempt, no recovery, no error; the next claim takes it."""
    JobFactory(keyed=True, attempts=1, recoveries=1, max_attempts=3)
    [held] = claim()
    before = row(held)
    assert force_release(held) == {"released": {held.id}}
    after = row(held)
    assert after["status"] == Status.PENDING
    assert {name for name in after if after[name] != before[name]} == {
        *("status", "processing_token", "processing_until", "events")
    }
    [again] = claim()
    assert (again.id, again.claims) == (held.id, 2)


def test_its_worker_is_told_and_can_write_nothing():
    """By its next renewal; neither that nor an outcome is taken, run again or not."""
    for is_taken in (False, True):
        Job.objects.all().remove()
        job = JobFactory()
        [held] = claim()
        force_release(job)
        if is_taken:
            claim()
        before = row(job)
        renewal = Job.objects.renew(held.token)
        assert held.id not in renewal.renewed | renewal.busy
        [settled] = Job.objects.settle([(held, Succeeded("3"))])
        assert settled.verdict.value == "lost"
        assert not Job.objects.progress(held, '{"done":1}')
        assert row(job) == before


def test_what_was_asked_of_the_run_is_done():
    """A cancel ends the job; another run has its arguments, and a round of its own."""
    stopped = JobFactory(leased=True, cancel_requested_at=DatabaseNow(), group="g")
    rerun = JobFactory(
        leased=True, rerun=True, next_args=[3, 4], cancel_requested_at=DatabaseNow()
    )
    told = force_release(stopped, rerun)
    assert told == {"cancelled": {stopped.pk}, "released": {rerun.pk}}
    assert row(stopped)["status"] == Status.CANCELLED
    after = row(rerun)
    assert (after["args"], after["round"], after["status"]) == ([3, 4], 2, "pending")


def test_a_lease_that_is_past():
    """As when no worker is there to recover it: nothing is counted."""
    job = JobFactory(expired=True)
    assert force_release(job) == {"released": {job.pk}}
    assert row(job)["recoveries"] == 0


def test_what_does_not_run_is_told_and_left(monkeypatch):
    """In steps of few rows as well."""
    monkeypatch.setattr(releasing, "ROWS", 2)
    running = JobFactory.create_batch(3, leased=True)
    waiting, failed, other = (
        JobFactory(),
        JobFactory(failed=True),
        JobFactory(leased=True),
    )
    gone = JobFactory()
    gone_id = gone.pk
    gone.delete()
    before = table()
    rows = Job.objects.using("default")._everything()
    chosen = [*ids(running), waiting.pk, failed.pk, gone_id]
    done = releasing.force_release(rows, chosen)
    assert (done.released, done.gone) == (set(ids(running)), {gone_id})
    assert (done.not_running, done.busy) == ({waiting.pk, failed.pk}, set())
    after = table()
    for one in (waiting, failed, other):
        assert after[one.pk] == before[one.pk]
    assert not hasattr(Job.objects, "force_release")


def test_only_the_run_that_is_meant():
    """By its number of claims; of a job that is not named it is any."""
    meant, claimed_since, any_run = JobFactory.create_batch(3, expired=True)
    claims = {meant.pk: meant.claims + 1, claimed_since.pk: claimed_since.claims}
    claim()
    before = row(claimed_since)
    chosen = Job.objects.filter(pk__in=ids([meant, claimed_since, any_run]))
    done = chosen.force_release(claims)
    assert done.released == {meant.pk, any_run.pk}
    assert (done.claimed_since, done.busy) == ({claimed_since.pk}, set())
    assert row(claimed_since) == before


def test_a_slot_of_its_key_is_free():
    """Whoever waits for it is called, or the job itself when it is claimed again."""
    for number in range(2):
        Job.objects.dispatch("tests.tasks.add", [1, number], concurrency="k")
    [held] = claim()
    assert claim() == []
    assert force_release(held) == {"released": {held.id}}
    [again] = claim()
    assert again.claims + (again.id != held.id) == 2


def test_delayed_jobs_stay_so():
    """One that was claimed by hand before its time."""
    later = DatabaseNow(dt.timedelta(days=1))
    job = JobFactory(leased=True, run_at=later)
    assert async_to_sync(Job.objects.filter(pk=job.pk).aforce_release)().released
    assert claim() == []
