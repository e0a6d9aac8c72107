"""Run now: delayed jobs are due at once, and nothing else of them changes."""

import datetime as dt

from asgiref.sync import async_to_sync

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.transitions import run_now as running_now
from tests.factories import JobFactory
from tests.road import claim, ids, row, table


def test_a_delayed_job_is_due():
    """Its attempts, its id and its errors stay; the next claim takes it."""
    job = JobFactory(
        scheduled=True,
        keyed=True,
        attempts=1,
        max_attempts=3,
        errors=[{"message": "a"}],
    )
    before = row(job)
    done = Job.objects.filter(pk=job.pk).run_now()
    assert done._asdict() == {
        "made_due": {job.pk},
        "unchanged": set(),
        "not_waiting": set(),
        "busy": set(),
        "gone": set(),
    }
    after = row(job)
    assert after.pop("run_at") < before.pop("run_at")
    assert (after.pop("events") is None, before.pop("events")) == (False, None)
    assert after == before
    assert [one.id for one in claim()] == [job.pk]


def test_what_is_not_delayed_is_told_and_left(monkeypatch):
    """In steps of few rows as well."""
    monkeypatch.setattr(running_now, "ROWS", 2)
    due = JobFactory()
    delayed = JobFactory.create_batch(3, scheduled=True)
    other = JobFactory(scheduled=True)
    # As `runjobs --job` may leave them, which does not wait for their time.
    later = {"run_at": DatabaseNow(dt.timedelta(days=1))}
    kinds = ("leased", "failed", "succeeded")
    rest = [JobFactory(**{kind: True}, **later) for kind in kinds]
    gone = JobFactory()
    gone_id = gone.pk
    gone.delete()
    before = table()
    rows = Job.objects.using("default")._everything()
    every = [due, *delayed, *rest]
    done = running_now.run_now(rows, [*ids(every), gone_id])
    assert done == (set(ids(delayed)), {due.pk}, set(ids(rest)), set(), {gone_id})
    after = table()
    for one in (due, other, *rest):
        assert after[one.pk] == before[one.pk]


def test_what_else_it_waits_for_stays():
    """A slot, a group, a place alone."""
    job = JobFactory(
        run_at=DatabaseNow(dt.timedelta(days=1)),
        blocked=1,
        concurrency_key="a",
        suspect=1,
    )
    before = row(job)
    async_to_sync(Job.objects.filter(pk=job.pk).arun_now)()
    assert {key for key, value in row(job).items() if value != before[key]} == {
        "run_at",
        "events",
    }
    assert not hasattr(Job.objects, "run_now")
