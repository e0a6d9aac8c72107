"""job.timeline(): each kind of event, made by what makes it in life."""

import sys
from datetime import datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_leasequeue import Concurrency, Dedup, dispatched_by, every, traces
from django_leasequeue.backoff import Fixed
from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import JobFailed
from django_leasequeue.history import Kind
from django_leasequeue.models import Job, Schedule
from django_leasequeue.outcomes import RetryLater, Snoozed, Succeeded
from django_leasequeue.testing import run_jobs
from tests.admin.looking import step_of
from tests.factories import JobFactory
from tests.road import WORKER, claim, toy
from tests.scheduling import HALF, STEP, a_schedule, tick
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True)


def kinds(job):
    """The kinds of a job's events, in order; those with times ascend."""
    events = job.timeline()
    times = [event.at for event in events if event.at is not None]
    assert times == sorted(times)
    return [event.kind.value for event in events]


def told(job, kind):
    """The words of the only event of this kind."""
    [event] = [event for event in job.timeline() if event.kind == kind]
    return event.words


def settle(held, outcome=None):
    Job.objects.settle([(held, outcome or Succeeded("1"))])


def test_a_job_that_simply_runs():
    job = add.dispatch(1, 2).job
    assert kinds(job) == ["dispatched"]
    [held] = claim()
    assert kinds(job) == ["dispatched", "claimed", "lease_ends"]
    assert told(job, Kind.CLAIMED) == f"Claimed by {WORKER}, for attempt 1."
    settle(held)
    dispatched, claimed, succeeded = job.timeline()
    job.refresh_from_db()
    assert dispatched.at == job.created_at and str(dispatched) == "Dispatched."
    assert claimed.at == job.started_at
    assert claimed.data == {"worker": WORKER, "attempt": 1}
    assert succeeded.at == job.finished_at
    assert succeeded.words.startswith("Succeeded, after ")
    assert async_to_sync(job.atimeline)() == [dispatched, claimed, succeeded]


def test_two_statements_and_one_before_it_runs():
    job = add.dispatch(1, 2).job
    for count in (1, 2):
        with CaptureQueriesContext(connection) as sent:
            job.timeline()
        assert len(sent) == count
        claim()


def test_a_row_that_is_gone():
    job = add.dispatch(1, 2).job
    Job.objects.all().delete()
    assert job.timeline() == []


# --- How it came to be


def test_by_whom():
    with dispatched_by("job 41"):
        job = add.dispatch(1, 2).job
    [event] = job.timeline()
    assert event.words == "Dispatched by job 41."
    assert event.data == {"by": "job 41", "job": 41}


def test_by_a_schedule():
    schedule = a_schedule(every(hours=1, args=[1, 2], overlap="allow"), ago=STEP + HALF)
    [job] = tick(schedule).jobs
    event, *_ = job.timeline()
    assert event.words.startswith("Dispatched by the schedule “s”, for its tick at 20")
    assert event.data == {"schedule": "s", "tick": job.tick}
    mine = Schedule.objects.filter(name="s")
    [(plain, _)] = mine.run_now()
    assert told(plain, Kind.DISPATCHED).endswith("“s”, beside its ticks.")
    [(job, _)] = mine.run_now(by="ann")
    assert told(job, Kind.DISPATCHED).endswith("“s”, beside its ticks, by ann.")


def test_when_it_is_due():
    job = add.using(delay=600).dispatch(1, 2).job
    assert kinds(job) == ["dispatched", "due"]
    assert told(job, Kind.DUE) == "It is due then."
    with dispatched_by("ann"):
        Job.objects.filter(pk=job.pk).run_now()
    assert kinds(job) == ["dispatched", "made_due"]
    assert told(job, Kind.MADE_DUE) == "Made due at once by ann."
    delayed = JobFactory(created_at=DatabaseNow(-60))
    assert told(delayed, Kind.DUE) == "Its time came."


def test_dispatches_that_it_answered():
    job = add.using(dedup="k").dispatch(1, 2).job
    for _ in range(2):
        add.using(dedup="k").dispatch(1, 2)
    assert kinds(job) == ["dispatched", "suppressed"]
    assert "answered 2 further dispatches" in told(job, Kind.SUPPRESSED)
    claim()
    add.using(dedup=Dedup("k", rerun=True)).dispatch(1, 2)
    assert "rerun_asked" in kinds(job)


# --- Its runs


@pytest.mark.parametrize("concurrency", [None, "k"])
def test_retries(concurrency):
    """Each attempt with when it began, and its traceback; claims of two statements too."""

    def fail():
        raise ConnectionError("no line")

    options = {"max_attempts": 3, "backoff": Fixed(1), "concurrency": concurrency}
    with toy(fail, name="tests.fails", **options) as task:
        job = task.dispatch().job
        with pytest.raises(JobFailed):
            run_jobs(through=10)
    run = ["claimed", "attempt_failed"]
    assert kinds(job) == ["dispatched", *run * 3, "failed"]
    failed = [event for event in job.timeline() if event.kind == Kind.ATTEMPT_FAILED]
    assert failed[1].words == "Attempt 2 failed: ConnectionError: no line"
    assert failed[1].detail.startswith("Traceback (most recent call last)")
    assert failed[1].data["exception_class"] == "builtins.ConnectionError"
    claimed = [event for event in job.timeline() if event.kind == Kind.CLAIMED]
    assert [event.data["attempt"] for event in claimed] == [1, 2, 3]
    assert told(job, Kind.FAILED) == "Failed for good, after 3 of 3 attempts."


def test_what_waits_for_its_next_attempt():
    """An error whose time is not known is told all the same."""
    job = add.dispatch(1, 2).job
    error = {"message": "m", "at": "no time", "attempt": 1}
    settle(*claim(), RetryLater(timedelta(600), error))
    assert kinds(job) == ["dispatched", "attempt_failed", "claimed", "due"]
    assert told(job, Kind.DUE) == "It is to run again then."


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("killed by SIGKILL", ", as the system does when memory runs out."),
        ("exited with code 3", "."),
    ],
)
def test_a_worker_that_was_lost(how, more):
    """The cause of its death, as its supervisor saw it."""
    job = add.dispatch(1, 2).job
    Job.objects.release(claim()[0].token, death=how)
    assert kinds(job) == ["dispatched", "claimed", "worker_lost"]
    words = f"Its worker {WORKER} was lost: {how}{more}"
    assert told(job, Kind.WORKER_LOST) == words
    [error] = Job.objects.get().errors
    error.pop("death")  # as releases before had it
    Job.objects.update(errors=[error])
    assert told(job, Kind.WORKER_LOST) == words


def test_a_lease_that_ended():
    """Nobody reported anything."""
    job = add.dispatch(1, 2).job
    claim()
    Job.objects.update(processing_until=DatabaseNow(-1))
    assert "ended without a renewal" in told(job, Kind.LEASE_ENDS)
    claim()
    assert kinds(job)[:4] == ["dispatched", "claimed", "worker_lost", "claimed"]
    assert "its lease ended without a renewal" in told(job, Kind.WORKER_LOST)


def test_a_lease_that_is_renewed():
    job = add.dispatch(1, 2).job
    [held] = claim()
    assert told(job, Kind.LEASE_ENDS).endswith("ends, unless it is renewed.")
    Job.objects.update(
        last_attempted_at=DatabaseNow(-timedelta(hours=1)),
        started_at=DatabaseNow(-timedelta(hours=1)),
        created_at=DatabaseNow(-timedelta(hours=1)),
    )
    Job.objects.renew(held.token)
    event = job.timeline()[-1]
    assert event.words.endswith("renewed again, as it was so far.")
    assert event.at == Job.objects.get().processing_until
    assert event.data["renewed"] is True


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (traces.WORKER_STOPS, f"Given back by {WORKER}, which was stopped."),
        (traces.NEIGHBOUR_TIMEOUT, f"Given back: {WORKER} was killed for a job beside"),
        (traces.LEASE_LOST, f"Given back by {WORKER}, which had to take its lease for"),
        ("of a later release", "Given back."),
    ],
)
def test_given_back(why, words):
    job = add.dispatch(1, 2).job
    Job.objects.release(claim()[0].token, why=why)
    assert kinds(job) == ["dispatched", "claimed", "released"]
    assert told(job, Kind.RELEASED).startswith(words)


def test_taken_from_its_worker():
    job = add.dispatch(1, 2).job
    for by in ("ann", ""):
        claim()
        with dispatched_by(by):
            Job.objects.filter(pk=job.pk).force_release()
    words = [e.words for e in job.timeline() if e.kind == Kind.RELEASED]
    assert words == ["Taken from its worker by ann.", "Taken from its worker by hand."]


def test_claims_of_which_nothing_is_kept():
    """Snoozes leave no trace but their number, and the workers' names."""
    job = add.dispatch(1, 2).job
    for _ in range(4):
        settle(*claim(), Snoozed(timedelta(0)))
    assert kinds(job) == ["dispatched", "claimed", "more_claims", "claimed"]
    event = job.timeline()[2]
    assert (event.at, event.data) == (None, {"count": 2, "workers": [WORKER]})
    assert event.words.startswith("In between it was claimed 2 more times")


def test_steps_and_progress():
    def work(context):
        context.step("charge", lambda: 7)
        context.progress(1, 4, "a quarter")

    with toy(work, name="tests.works", takes_context=True) as task:
        job = task.dispatch().job
        run_jobs()
    events = {event.kind: event for event in job.timeline()}
    assert [*events][:3] == ["dispatched", "claimed", "step"]
    step = events[Kind.STEP]
    assert step.words.startswith("Step “charge” is recorded, after ")
    assert (step.detail, step.data["attempt"], step.data["round"]) == ("7", 1, 1)
    job.retry()
    [step] = [event for event in job.timeline() if event.kind == Kind.STEP]
    assert step.words.startswith("Step “charge” of round 1 was recorded")


@pytest.mark.parametrize(
    ("said", "words", "detail"),
    [
        ({"done": 1, "total": 4, "text": "a"}, "It has come to 1 of 4.", "a"),
        ({"done": 1, "total": None, "text": ""}, "It has come to 1.", ""),
        ("half", "Its progress:", "half"),
    ],
)
def test_progress(said, words, detail):
    job = JobFactory(leased=True, progress=said)
    event = job.timeline()[-2]
    assert (event.kind, event.words, event.detail) == (Kind.PROGRESS, words, detail)


# --- By hand


def test_cancelled():
    with dispatched_by("admin: ann"):
        waiting, running = add.dispatch(1, 2).job, JobFactory(leased=True)
        Job.objects.filter(pk=waiting.pk).cancel()
        running.cancel()
    assert kinds(waiting) == ["dispatched", "cancelled"]
    assert told(waiting, Kind.CANCELLED) == "Cancelled by admin: ann."
    words = told(running, Kind.CANCEL_REQUESTED)
    assert words == "A cancel was asked for by admin: ann."
    old = JobFactory(cancelled=True)  # by a release that kept no events
    assert kinds(old)[-2:] == ["cancel_requested", "cancelled"]


def test_retried_by_hand():
    job = JobFactory(succeeded=True, result=None)
    with dispatched_by("ann"):
        job.retry()
    assert told(job, Kind.RETRIED) == "To be run again, in a new round, by ann."


def test_superseded():
    concurrency = Concurrency("doc:{number}", supersedes=True)
    with toy(lambda number: number, name="newest", concurrency=concurrency) as task:
        job, last = task.dispatch(1).job, task.dispatch(1).job
    assert kinds(job) == ["dispatched", "superseded"]
    assert told(job, Kind.SUPERSEDED) == f"Superseded by job {last.pk}."


# --- Whatever the row holds


@pytest.mark.parametrize(
    "errors", ["x", 7, {}, [None, 7, "x", []], [{"at": "2026-01-01", "times": 2}]]
)
def test_errors_that_nobody_of_ours_wrote(errors):
    """Case 174: what can't be understood is told as it is."""
    job = JobFactory(succeeded=True, errors=errors, events='{"kind": "later"}\n{')
    assert kinds(job)[-1] == "succeeded"


def test_as_json():
    job = JobFactory(leased=True)
    for event in job.timeline():
        shown = event.as_dict()
        assert shown["at"] is None or datetime.fromisoformat(shown["at"]) == event.at
        assert all(not isinstance(value, datetime) for value in shown["data"].values())


def test_of_many_steps_the_newest(monkeypatch):
    monkeypatch.setattr(sys.modules["django_leasequeue.history.read"], "MOST_STEPS", 2)
    job = JobFactory(succeeded=True)
    for name in ("eins", "zwei", "drei"):
        step_of(job, name=name, worker="w")
    events = [event for event in job.timeline() if "step" in event.kind.value]
    assert [event.kind for event in events] == [Kind.MORE_STEPS, Kind.STEP, Kind.STEP]
    assert [event.data["name"] for event in events[1:]] == ["zwei", "drei"]
