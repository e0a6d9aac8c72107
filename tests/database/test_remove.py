"""Remove: the rows of jobs that wait or have ended go, and no others."""

import datetime as dt

from asgiref.sync import async_to_sync

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import GroupWait, Job, Step
from django_leasequeue.transitions import remove as removing
from tests.admin.looking import step_of
from tests.factories import JobFactory
from tests.road import claim, ids, row, table
from tests.tasks import add

LATER = DatabaseNow(dt.timedelta(minutes=5))
BEFORE = DatabaseNow(-dt.timedelta(minutes=5))


def remove(*jobs):
    done = Job.objects.filter(pk__in=ids(jobs)).remove()
    return {kind: found for kind, found in done._asdict().items() if found}


def test_what_waits_or_has_ended_goes():
    """With its steps; what runs stays, whether its lease lasts or not, and is told."""
    kinds = ("scheduled", "succeeded", "failed", "cancelled")
    going = [JobFactory(), *(JobFactory(**{kind: True}) for kind in kinds)]
    running = [JobFactory(leased=True), JobFactory(expired=True)]
    for job in (*going, *running):
        step_of(job, name="a")
    other = JobFactory()
    before = {job.pk: row(job) for job in (*running, other)}
    assert remove(*going, *running) == {
        "removed": set(ids(going)),
        "running": set(ids(running)),
    }
    assert table() == before
    assert set(Step.objects.values_list("job_id", flat=True)) == set(ids(running))
    assert not hasattr(Job.objects, "remove")


def test_what_a_window_holds_stays_and_is_told():
    """Else its id would be free before the window is over. An id without one goes along."""
    values = {"dedup_id": "a", "dedup_ttl": dt.timedelta(minutes=5)}
    held = JobFactory(succeeded=True, **values, dedup_until=LATER)
    over = JobFactory(succeeded=True, **{**values, "dedup_id": "b"}, dedup_until=BEFORE)
    lost = JobFactory(failed=True, **{**values, "dedup_id": None}, dedup_until=LATER)
    forever = JobFactory(succeeded=True, dedup_id="c", dedup_hold="removed")
    waiting = JobFactory(dedup_id="d", dedup_hold="finished")
    assert remove(held, over, lost, forever, waiting) == {
        "in_window": {held.pk},
        "removed": {over.pk, lost.pk, forever.pk, waiting.pk},
    }
    assert Job.objects.dispatch(add, [1, 2], dedup="c").added
    assert not Job.objects.dispatch(add, [1, 2], dedup="a").added


def test_in_steps_and_what_is_gone(monkeypatch):
    monkeypatch.setattr(removing, "ROWS", 2)
    jobs = JobFactory.create_batch(5, failed=True)
    gone_id = jobs[0].pk
    jobs[0].delete()
    rows = Job.objects.using("default")._everything()
    done = removing.remove(rows, [gone_id, *ids(jobs[1:])])
    assert done == (set(ids(jobs[1:])), set(), set(), set(), {gone_id})
    assert table() == {}


def test_a_group_is_done_without_it(django_capture_on_commit_callbacks):
    """What waits for the group may start; a job that waits for one goes with its wait."""
    first, _ = Job.objects.dispatch(add, [1, 2], group="g")
    follower, _ = Job.objects.dispatch(add, [1, 2], after_group="g")
    other, _ = Job.objects.dispatch(add, [1, 2], after_group="g")
    with django_capture_on_commit_callbacks(execute=True):
        assert remove(other) == {"removed": {other.pk}}
        assert async_to_sync(Job.objects.filter(pk=first.pk).aremove)().removed
    assert ids(claim()) == [follower.pk]
    assert not GroupWait.objects.exists()


def test_who_waits_for_its_key_is_called(django_capture_on_commit_callbacks):
    """As the one that was to try next is removed while another waits."""
    every = [
        Job.objects.dispatch(add, [1, number], concurrency="k").job
        for number in range(3)
    ]
    [held] = claim()
    assert claim() == []
    waiting = [job for job in every if job.pk != held.id]
    with django_capture_on_commit_callbacks(execute=True):
        Job.objects.filter(pk=held.id).force_release()
    with django_capture_on_commit_callbacks(execute=True):
        assert remove(waiting[0]) == {"removed": {waiting[0].pk}}
    assert len(claim()) == 1
