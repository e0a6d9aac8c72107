"""What happened to a job by hand or by accident: what its row keeps of it."""

from datetime import UTC, datetime, timedelta

import pytest

from django_leasequeue import Concurrency, dispatched_by, traces
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Released, Succeeded
from django_leasequeue.transitions import cancel as cancelling
from tests.factories import JobFactory
from tests.road import claim, row, toy

pytestmark = pytest.mark.django_db(transaction=True)
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def events_of(job):
    """Return the events of a job, without their times, which are near its newest."""
    found = traces.read(row(job)["events"])
    for event in found:
        at = datetime.fromisoformat(event.pop("at"))
        assert timedelta(-1) < at - row(job)["created_at"] < timedelta(1)
    return found


def chosen(*jobs):
    return Job.objects.filter(pk__in=[job.pk for job in jobs])


def test_nothing_for_a_job_that_simply_runs():
    """Claim and settle write none."""
    job = JobFactory()
    [held] = claim()
    Job.objects.settle([(held, Succeeded("1"))])
    assert row(job)["events"] is None


def test_a_cancel():
    """Of those that wait, and of those that run; with who did it, if that is known."""
    waiting, running = JobFactory(), JobFactory(leased=True)
    with dispatched_by("admin: ann"):
        chosen(waiting, running).cancel()
    assert events_of(waiting) == [{"kind": "cancelled", "by": "admin: ann"}]
    assert events_of(running) == [{"kind": "cancel_requested", "by": "admin: ann"}]
    unknown = JobFactory()
    unknown.cancel()
    assert events_of(unknown) == [{"kind": "cancelled"}]


def test_a_cancel_that_finds_the_job_back_in_its_queue():
    """It was running when it was looked at."""
    job = JobFactory()
    cancelling._ask(Job.objects.all(), [job.pk])
    assert events_of(job) == [{"kind": "cancelled"}]


def test_a_retry_by_hand():
    """Again and again, the oldest first; one that has to get its dedup id back as well."""
    jobs = [JobFactory(failed=True), JobFactory(failed=True, released_dedup_id="k")]
    with dispatched_by("ann"):
        chosen(*jobs).retry()
    chosen(*jobs).cancel()
    chosen(*jobs).retry()
    assert events_of(jobs[0]) == [
        {"kind": "retried", "by": "ann"},
        {"kind": "cancelled"},
        {"kind": "retried"},
    ]
    assert events_of(jobs[1]) == events_of(jobs[0])


def test_run_now():
    job = JobFactory(scheduled=True)
    with dispatched_by("ann"):
        chosen(job).run_now()
    assert events_of(job) == [{"kind": "made_due", "by": "ann"}]


def test_superseded():
    """By which job, as long as one statement is about one alone."""
    concurrency = Concurrency("doc:{number}", supersedes=True)
    with toy(lambda number: number, name="newest", concurrency=concurrency) as task:
        first, _ = task.dispatch(1)
        last, _ = task.dispatch(1)
        several = Job.objects.dispatch_many([task.spec(n) for n in (2, 2, 3, 3)])
    assert events_of(first) == [{"kind": "superseded", "job": last.pk}]
    assert events_of(last) == []
    assert events_of(several[0].job) == events_of(several[2].job)
    assert events_of(several[0].job) == [{"kind": "superseded"}]


def test_given_back():
    """Why, by whom, and since when that one had it; all of a token in one statement."""
    jobs = JobFactory.create_batch(2)
    held = claim()
    Job.objects.release(held[0].token, why=traces.WORKER_STOPS)
    since = row(jobs[0])["last_attempted_at"].isoformat()
    told = {"worker": held[0].worker, "started_at": since, "why": "worker_stops"}
    assert [events_of(job) for job in jobs] == [[{"kind": "released", **told}]] * 2


def test_given_back_from_a_claim_of_several_priorities():
    """Each since its own part of the claim: another time would read like another claim."""
    jobs = [JobFactory(priority=priority) for priority in (0, 1)]
    Job.objects.release(claim()[0].token, why=traces.WORKER_STOPS)
    for job in jobs:
        [event] = events_of(job)
        assert event["started_at"] == row(job)["last_attempted_at"].isoformat()


def test_taken_from_its_worker():
    jobs = JobFactory(leased=True), JobFactory(leased=True, rerun=True)
    with dispatched_by("ann"):
        chosen(*jobs).force_release()
    told = {"kind": "released", "by": "ann", "why": "by_hand"}
    assert [events_of(job) for job in jobs] == [[told], [told]]


def test_what_had_not_started_is_given_back_in_silence():
    job = JobFactory()
    Job.objects.release(claim()[0].token)
    assert row(job)["events"] is None


def test_a_death_stands_among_the_errors_alone():
    """With when the run had begun."""
    job = JobFactory()
    Job.objects.release(claim()[0].token, death="killed by SIGKILL", why="x")
    assert row(job)["events"] is None
    [error] = row(job)["errors"]
    assert error["started_at"] == row(job)["last_attempted_at"].isoformat()


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (Released(lost=True), "lease_lost"),
        (Released(why="worker_stops"), "worker_stops"),
    ],
)
def test_a_run_that_was_cut_short(outcome, why):
    job = JobFactory()
    [held] = claim()
    Job.objects.settle([(held, outcome)])
    told = {"worker": held.worker, "why": why}
    assert events_of(job) == [{"kind": "released", **told}]
    [held] = claim()
    Job.objects.settle([(held, Released())])
    assert len(events_of(job)) == 1


def test_the_newest_are_kept():
    """Within bounds, whoever does it how often; a piece of the oldest is passed over."""
    job = JobFactory(scheduled=True)
    for number in range(60):
        noted = traces.noted("made_due", NOON, by=f"é {number:02}" + "x" * 60)
        chosen(job).update(**noted)
    text = row(job)["events"]
    assert len(text) == traces.LONGEST and not text.startswith("{")
    found = traces.read(text)
    assert 20 < len(found) < 60
    assert found[-1]["by"].startswith("é 59")


@pytest.mark.parametrize(
    "text", ["", "{", "null\n7\n[]\n{}", '{"kind": 7}', "[" * 9999]
)
def test_what_nobody_of_ours_wrote(text):
    assert traces.read(text) == [] == traces.read(None)
