"""Force release beside the worker that holds the lease."""

from datetime import timedelta

import pytest
from django.conf import settings

from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, Snoozed, Succeeded
from django_leasequeue.transitions import force_release as releasing
from django_leasequeue.transitions import settle as settling
from tests.admin.acting import asked, confirmed
from tests.factories import JobFactory
from tests.helpers import in_thread, paused, together
from tests.road import claim, ids, locked, row

one_lock = pytest.mark.skipif(
    settings.DATABASE == "sqlite", reason="one lock for the whole file"
)

SUCCEEDED = Succeeded("3")
SNOOZED = Snoozed(timedelta(0))


def force_release(*jobs):
    done = Job.objects.filter(pk__in=ids(jobs)).force_release()
    return {kind: found for kind, found in done._asdict().items() if found}


def settle(*held, outcome=SUCCEEDED):
    settled = Job.objects.settle([(one, outcome) for one in held])
    return [one.verdict.value for one in settled]


@one_lock
def test_178_a_locked_row_stops_nobody():
    """Nor is its lock waited for, which may be its worker's."""
    held, *others = JobFactory.create_batch(3, leased=True)
    with locked([held]):
        told = force_release(held, *others)
    assert told == {"busy": {held.pk}, "released": set(ids(others))}
    assert row(held)["status"] == "running"


def test_a_job_that_ends_after_it_was_chosen():
    """As between the page that asks and its answer: its outcome stays."""
    job = JobFactory()
    [held] = claim()
    with (
        paused(releasing, "_release") as pause,
        in_thread(lambda: force_release(job)) as one,
    ):
        pause.wait()
        assert settle(held) == ["written"]
        before = row(job)
        pause.resume()
        assert one.result() == {"not_running": {job.pk}}
    assert row(job) == before


def test_178_a_new_run_between_the_confirmation_and_the_write(admin_client):
    """It keeps its lease, and the page says so; the run that was seen had ended."""
    job, other = JobFactory(), JobFactory(leased=True)
    [held] = claim()
    html = asked(admin_client, "release", job, other)
    with (
        paused(releasing, "_release") as pause,
        in_thread(lambda: confirmed(admin_client, html)) as one,
    ):
        pause.wait()
        assert settle(held, outcome=SNOOZED) == ["written"]
        [again] = claim()
        before = row(job)
        pause.resume()
        told = one.result()
    assert f"since a worker has begun it anew meanwhile: {job.pk}." in told
    assert "1 job was taken from its worker and waits again." in told
    assert (again.id, before["processing_token"]) == (job.pk, again.token)
    assert row(job) == before


@one_lock
def test_a_settle_that_has_the_row():
    """It comes first; the release does not wait for it."""
    job = JobFactory()
    [held] = claim()
    failed = Failed({"message": "as asked"})
    with (
        paused(settling, "_write") as pause,
        in_thread(lambda: settle(held, outcome=failed)) as one,
    ):
        pause.wait()
        assert force_release(job) == {"busy": {job.pk}}
        pause.resume()
        assert one.result() == ["written"]
    assert row(job)["status"] == "failed"


def test_settled_or_released_and_never_both():
    """Of twenty jobs each has one end, and who was refused is told."""
    JobFactory.create_batch(20)
    held = claim()
    chosen = set(ids(held))

    def settled(one):
        """Tried again while a release has the row, as a worker does."""
        verdict = "busy"
        while verdict == "busy":
            [verdict] = settle(one)
        return verdict

    def work(number):
        if number == 0:
            return {one.id: settled(one) for one in held}
        return force_release(*(held[::-1] if number == 1 else held[1::2]))

    verdicts, *told = together(3, work)
    written = {pk for pk, verdict in verdicts.items() if verdict == "written"}
    released = [pk for one in told for pk in one.get("released", ())]
    assert len(released) == len(set(released))
    assert written.isdisjoint(released) and written | set(released) == chosen
    assert set(Job.objects.pending().values_list("pk", flat=True)) == set(released)
    assert {pk for pk, verdict in verdicts.items() if verdict == "lost"} == set(
        released
    )
