"""`job.why()`: each cause by a job of which it is true, and what the answer costs."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from django_leasequeue import errors, why
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Queue, Worker
from django_leasequeue.models.worker import LIVE_FOR
from django_leasequeue.outcomes import RetryLater, Snoozed
from django_leasequeue.times import local_time, span
from django_leasequeue.why import Kind, ahead, look
from django_leasequeue.worker.heartbeat import BEAT_EVERY
from tests import readme
from tests.admin.looking import make_worker
from tests.factories import JobFactory
from tests.processes import ROOT
from tests.road import claim, ids, statements, toy
from tests.tasks import add

pytestmark = pytest.mark.django_db(databases=["default", "other"])

ADD = "tests.tasks.add"
# The names that each cause's data may have, as docs/operations.md tells them.
DATA = {
    kind.strip("`"): set(re.findall(r"`(\w+)`", names))
    for kind, _, names in readme.table(
        "kind | it | data", (ROOT / "docs/operations.md").read_text()
    )
}
DATA["lease_past"] = DATA["running"]
ERROR = {
    "exception_class": "builtins.OSError",
    "message": "no route\nto the host",
    "traceback": "",
    "worker": "host:1",
}


@pytest.fixture
def worker(db):
    return make_worker(queues=["*"], tasks=[ADD])


def causes(job):
    """Return why the job is not running, whose data is as documented."""
    found = job.why()
    for cause in found:
        assert set(cause.data) <= DATA[cause.kind], cause
    return found


def kinds(job):
    return [cause.kind for cause in causes(job)]


def only(job, kind):
    """Return the one cause that a job has."""
    [cause] = causes(job)
    assert cause.kind is kind, cause
    return cause


def ran(outcome, **values):
    """Return a job whose run has ended with `outcome`, which is called with the claim."""
    job = add.using(**values).dispatch(1, 2).job
    [claimed] = claim()
    assert Job.objects.settle([(claimed, outcome(claimed))])
    job.refresh_from_db()
    return job


def error_of(claimed, **values):
    at = claimed.database_time().isoformat()
    return {**ERROR, "attempt": claimed.attempts + 1, "at": at, **values}


# --- The row


def test_no_row():
    """Removed, rolled back, or never there."""
    job = JobFactory()
    Job.objects.filter(pk=job.pk).delete()
    cause = only(job, Kind.GONE)
    assert cause.data == {"job": job.pk, "database": "default"}
    assert f"no job {job.pk} in database “default”" in str(cause)


def test_a_status_of_a_newer_release(monkeypatch):
    job = JobFactory()
    real = look.look

    def newer(rows, pk):
        seen = real(rows, pk)
        seen.row["status"] = "parked"
        return seen

    monkeypatch.setattr("django_leasequeue.why.answer.look", newer)
    assert only(job, Kind.UNKNOWN_STATUS).data == {"status": "parked"}


# --- It has ended


def test_succeeded():
    job = JobFactory(succeeded=True)
    cause = only(job, Kind.SUCCEEDED)
    assert cause.data["at"] == job.finished_at
    assert local_time(job.finished_at) in cause.sentence


def test_failed():
    cause = only(JobFactory(failed=True), Kind.FAILED)
    assert cause.data["exception_class"] == "builtins.ValueError"
    assert "1 of 1 attempts: ValueError: as asked" in cause.sentence


@pytest.mark.parametrize("broken", [[], "text", [7], [{"message": 7}]])
def test_failed_with_errors_that_nobody_of_ours_wrote(broken):
    cause = only(JobFactory(failed=True, errors=broken), Kind.FAILED)
    assert cause.sentence.endswith("its error was not kept.")


def test_cancelled():
    """Before it ran, before a retry, and while it ran."""
    job = JobFactory()
    Job.objects.filter(pk=job.pk).cancel()
    assert "before it ran" in only(job, Kind.CANCELLED).sentence
    again = ran(lambda claimed: RetryLater(timedelta(minutes=1), error_of(claimed)))
    Job.objects.filter(pk=again.pk).cancel()
    assert "waited to run again" in only(again, Kind.CANCELLED).sentence
    job = JobFactory(cancelled=True, claims=1)
    cause = only(job, Kind.CANCELLED)
    assert cause.data["requested_at"] == job.cancel_requested_at
    assert "that was asked for at" in cause.sentence


# --- It runs


def test_running(worker):
    job = JobFactory(leased=True, worker=worker.name)
    cause = only(job, Kind.RUNNING)
    assert cause.data["worker"] == worker.name and cause.data["worker_is_live"]
    assert cause.data["until"] == job.processing_until
    assert cause.data["since"] == job.last_attempted_at
    assert local_time(job.processing_until) in cause.sentence


def test_running_at_a_worker_that_is_silent(worker):
    job = JobFactory(leased=True, worker="gone:1")
    cause = only(job, Kind.RUNNING)
    assert not cause.data["worker_is_live"]
    assert "has not been seen for a minute" in cause.sentence


def test_running_and_asked_to_stop(worker):
    job = JobFactory(leased=True, worker=worker.name)
    Job.objects.filter(pk=job.pk).update(cancel_requested_at=DatabaseNow())
    _, asked = job.why()
    job.refresh_from_db()
    assert asked.kind is Kind.CANCEL_REQUESTED
    assert asked.data == {"at": job.cancel_requested_at}


def test_lease_past(worker):
    """With who could recover it: here somebody, then nobody."""
    job = JobFactory(expired=True)
    cause = only(job, Kind.LEASE_PAST)
    assert cause.data["worker"] == "another worker"
    worker.delete()
    assert kinds(job) == [Kind.LEASE_PAST, Kind.NO_WORKER]


# --- It waits for its time


def test_due_later(worker):
    # Not in an hour, which within SQLite's millisecond it would still be in.
    job = JobFactory(run_at=DatabaseNow(3599))
    cause = only(job, Kind.DUE_LATER)
    assert cause.data == {"at": job.run_at}
    assert local_time(job.run_at) in cause.sentence and "59 minutes" in cause.sentence


def test_retry_later(worker):
    job = ran(
        lambda claimed: RetryLater(timedelta(minutes=5), error_of(claimed)),
        max_attempts=3,
    )
    cause = only(job, Kind.RETRY_LATER)
    assert cause.data["exception_class"] == "builtins.OSError"
    assert (cause.data["attempts"], cause.data["max_attempts"]) == (1, 3)
    assert "attempt 1 of 3 failed" in cause.sentence
    assert cause.sentence.endswith("OSError: no route…")


def test_a_snooze_is_no_retry(worker):
    """Also after an attempt that failed: its error is of an earlier run."""
    old = {**ERROR, "attempt": 1, "at": "2026-01-02T03:04:05+00:00"}
    job = add.dispatch(1, 2).job
    Job.objects.filter(pk=job.pk).update(errors=[old], attempts=1, max_attempts=3)
    [claimed] = claim()
    Job.objects.settle([(claimed, Snoozed(timedelta(minutes=5)))])
    only(job, Kind.DUE_LATER)
    for broken in ["no time", "2026-01-02T03:04:05", 7]:
        Job.objects.filter(pk=job.pk).update(errors=[{**ERROR, "at": broken}])
        only(job, Kind.DUE_LATER)


def test_unknown_task(worker):
    def unknown(claimed):
        entry = error_of(claimed, exception_class="…exceptions.UnknownTask")
        told = errors.repeatable(entry, claimed.round)
        return RetryLater(timedelta(seconds=30), told, counted=False)

    cause = only(ran(unknown), Kind.UNKNOWN_TASK)
    assert cause.data["times"] == 1
    assert "does not know its task" in cause.sentence


def test_of_a_job_that_is_not_due_all_that_will_hold_it_up():
    job = JobFactory(scheduled=True)
    Queue.objects.pause("default")
    assert kinds(job) == [Kind.DUE_LATER, Kind.QUEUE_PAUSED, Kind.NO_WORKER]


# --- It waits for somebody


def test_queue_paused(worker):
    job = JobFactory()
    Queue.objects.pause("default", by="ann", reason="The server is down.")
    cause = only(job, Kind.QUEUE_PAUSED)
    paused_at = Queue.objects.get().paused_at
    assert cause.data == {
        "queue": "default",
        "at": paused_at,
        "by": "ann",
        "reason": "The server is down.",
    }
    assert cause.sentence == (
        f"Its queue “default” is paused since {local_time(paused_at)}, by ann. "
        "Reason: The server is down."
    )
    Queue.objects.resume("default")
    assert kinds(job) == [Kind.NEXT]


def test_no_worker_is_alive(worker):
    """One that was not seen for a minute is not."""
    job = JobFactory()
    Worker.objects.update(last_seen_at=DatabaseNow(-61))
    assert only(job, Kind.NO_WORKER).data == {"queue": "default", "workers": 0}
    assert list(Worker.objects.silent()) == [worker] and not Worker.objects.live()
    # It may miss some of its beats.
    assert LIVE_FOR >= 5 * BEAT_EVERY


@pytest.mark.parametrize(
    ("queues", "exclude", "taken"),
    [
        (["mail"], [], False),
        (["*"], ["default"], False),
        (["mail", "default"], [], True),
        (["mail", "*"], ["video"], True),
        ("broken", 7, True),
    ],
)
def test_no_live_worker_takes_the_queue(queues, exclude, taken):
    make_worker(queues=queues, exclude=exclude, tasks=[ADD])
    found = kinds(JobFactory())
    assert found == ([Kind.NEXT] if taken else [Kind.NOT_TAKEN])


def test_live_workers_lack_the_task(worker):
    """Those that take its queue; a name that the worker knows as an alias is known."""
    make_worker(name="other", queues=["mail"], tasks=["shop.gone"])
    cause = only(JobFactory(task="shop.gone"), Kind.TASK_MISSING)
    assert cause.data == {"task": "shop.gone", "workers": 1}
    with toy(lambda: None, name="new", aliases=["old"]):
        job = JobFactory(task="old")
        only(job, Kind.TASK_MISSING)
        Worker.objects.update(tasks=["new"])
        assert Kind.TASK_MISSING not in kinds(job)
    Worker.objects.update(tasks={"not": "a list"})
    assert Kind.TASK_MISSING not in kinds(job)


def test_blocked_by_its_concurrency_key(worker):
    """It says which jobs have the slots; or that one is free, until somebody is called."""
    keyed = {"concurrency_key": "tenant:7", "concurrency_limit": 2}
    running = [JobFactory(**keyed) for _ in range(2)]
    job = JobFactory(**keyed)
    claim()
    told = only(job, Kind.BLOCKED)
    assert told.data == {"key": "tenant:7", "limit": 2, "jobs": ids(running)}
    assert f"now {running[0].pk}, {running[1].pk}." in told.sentence
    Job.objects.running().delete()
    assert "one is free" in only(job, Kind.BLOCKED).sentence


def test_waits_for_a_group(worker):
    [*others] = JobFactory.create_batch(2, group="import:7")
    job = Job.objects.dispatch("tests.tasks.add", [1, 2], after_group="import:7").job
    cause = only(job, Kind.AWAITS_GROUP)
    assert cause.data == {"group": "import:7", "left": 2}
    assert "of which 2 jobs wait or run" in cause.sentence
    Job.objects.filter(pk__in=[other.pk for other in others]).delete()
    assert "is done" in only(job, Kind.AWAITS_GROUP).sentence


def test_runs_alone(worker):
    """After it lost a worker; with its place among those that run alone."""
    JobFactory.create_batch(3)
    job = JobFactory(suspect=1, recoveries=2)
    alone, place = job.why()
    assert alone.kind is Kind.RUNS_ALONE and alone.data == {"recoveries": 2}
    assert place.kind is Kind.NEXT


def test_behind_earlier_jobs(worker):
    """Those that a claim takes first: by priority, time and id; none that wait or are gone."""
    JobFactory(queue="other", priority=9)
    JobFactory(priority=9, scheduled=True)
    JobFactory(priority=9, suspect=1)
    JobFactory(priority=9, blocked=1)
    JobFactory(succeeded=True, priority=9)
    JobFactory(priority=-1)
    first = JobFactory(run_at=DatabaseNow(-60))
    assert only(first, Kind.NEXT).data["ahead"] == 0
    JobFactory(priority=5)
    JobFactory(priority=7)
    assert only(first, Kind.BEHIND).sentence == (
        "It waits behind 2 earlier jobs of its queue."
    )
    second = JobFactory(run_at=first.run_at)
    assert only(second, Kind.BEHIND).data == {
        "ahead": 3,
        "more": False,
        "workers": [worker.name],
    }


def test_behind_more_than_are_counted(worker, monkeypatch):
    monkeypatch.setattr(ahead, "MOST", 3)
    monkeypatch.setattr("django_leasequeue.why.pending.MOST", 3)
    JobFactory.create_batch(4)
    cause = only(JobFactory(), Kind.BEHIND)
    assert cause.data["more"] and cause.data["ahead"] == 3
    assert "more than 3 earlier" in cause.sentence


def test_next(worker):
    cause = only(JobFactory(), Kind.NEXT)
    assert cause.data["workers"] == [worker.name]


def test_read_only(worker):
    """As in maintenance, or at a standby."""
    switch = {
        "postgresql": "SET transaction_read_only = on",
        "sqlite": "PRAGMA query_only = 1",
    }.get(connection.vendor)
    if switch is None:
        pytest.skip("the whole server would have to be read-only, at which others work")
    job = JobFactory()
    with connection.cursor() as cursor:
        cursor.execute(switch)
        try:
            assert kinds(job) == [Kind.READ_ONLY]
        finally:
            if connection.vendor == "sqlite":
                cursor.execute("PRAGMA query_only = 0")


def test_with_more_live_workers_than_are_read_nothing_is_said_of_what_they_lack(
    worker, monkeypatch
):
    monkeypatch.setattr(look, "MOST_WORKERS", 1)
    Worker.objects.update(queues=["mail"])
    make_worker(name="second", queues=["mail"], tasks=[])
    job = JobFactory()
    assert kinds(job) == [Kind.NEXT]


# --- The answer


def test_every_kind_has_a_test():
    """Each is named above as what a job's answer is."""
    text = Path(__file__).read_text()
    missing = [kind.name for kind in Kind if f"Kind.{kind.name}" not in text]
    assert missing == []


def test_what_machines_get():
    job = JobFactory(scheduled=True)
    make_worker(queues=["*"], tasks=[ADD])
    [cause] = Job.objects.why(job.pk)
    assert isinstance(cause, why.Cause)
    assert cause.as_dict() == {
        "kind": "due_later",
        "sentence": cause.sentence,
        "data": {"at": job.run_at.isoformat()},
    }


def test_of_another_database():
    job = JobFactory(using="other", scheduled=True)
    make_worker()
    assert Job.objects.why(job.pk)[0].kind is Kind.GONE
    assert kinds(job) == [Kind.DUE_LATER, Kind.NO_WORKER]


@pytest.mark.django_db(transaction=True)
def test_async(worker):
    job = JobFactory(scheduled=True)

    async def both():
        return await job.awhy(), await Job.objects.awhy(job.pk)

    mine, same = async_to_sync(both)()
    assert mine == same and mine[0].kind is Kind.DUE_LATER


def test_it_is_for_the_whole_table():
    with pytest.raises(TypeError, match="whole table"):
        Job.objects.filter(queue="mail").why(1)


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ({}, 7),
        ({"scheduled": True}, 4),
        ({"leased": True}, 2),
        ({"expired": True}, 3),
        ({"failed": True}, 1),
    ],
)
def test_statements(worker, values, most):
    """A small number, the same however many jobs and workers there are; no locks."""
    JobFactory.create_batch(5, priority=5)
    for number in range(5):
        make_worker(name=f"w{number}", queues=["*"], tasks=[ADD])
    job = JobFactory(**values)
    with statements() as seen:
        job.why()
    assert len(seen) == most, seen
    assert not [sql for sql in seen if "FOR UPDATE" in sql or "UPDATE " in sql]
    assert not [sql for sql in seen if "kwargs" in sql]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 seconds"),
        (1.9, "1 second"),
        (60, "1 minute"),
        (7199, "1 hour"),
        (100_000, "27 hours"),
        (200_000, "2 days"),
    ],
)
def test_spans(seconds, text):
    assert span(seconds) == text
