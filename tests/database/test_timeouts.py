"""Time limits: what the database, its connections and the jobs beside see of them."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction

from django_leasequeue import clock
from django_leasequeue.errors import describe_death
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, Failed, RetryLater, Succeeded
from django_leasequeue.states import Status
from django_leasequeue.worker import atomic, runner
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.deadlines import Deadlines
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.lease_table import Holding, Term
from django_leasequeue.worker.limit import Limit
from django_leasequeue.worker.overdue import Overdue
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.releasing import PendingRelease
from django_leasequeue.worker.stop import Level
from django_leasequeue.worker.timed import TimedRun
from tests import overrunning
from tests.claims import NAME, claim, claimed, context_of, registered
from tests.factories import JobFactory
from tests.helpers import DEADLINE, eventually, in_thread
from tests.models import Effect
from tests.road import locked, row
from tests.workers import options

pytestmark = pytest.mark.django_db(transaction=True)

TIMED_OUT = "django_leasequeue.exceptions.JobTimeout"
SOON = 0.05


@pytest.fixture
def deadlines():
    made = Deadlines()
    yield made
    made.close()


def limited(job, deadlines):
    return JobContext(job, None, threading.Event(), Limit(SOON, deadlines))


def loop():
    until = clock.now() + DEADLINE
    while clock.now() < until:
        pass


# --- The task's own writes and connections


def test_an_atomic_task_that_times_out_leaves_nothing(deadlines):
    def write_then_loop():
        Effect.objects.create(name="written")
        loop()

    JobFactory(task=NAME, args=[])
    job = claim()
    with registered(write_then_loop, atomic=True, timeout=SOON):
        ended = atomic.run_and_settle(
            job, limited(job, deadlines), using="default", settle=None
        )
    assert ended.settled is None
    assert ended.outcome.error["exception_class"] == TIMED_OUT
    assert not Effect.objects.exists()
    assert row(job)["status"] == Status.RUNNING


def test_an_atomic_task_that_returns_too_late_leaves_nothing():
    """Where nothing interrupts it."""

    def write_too_late(context):
        Effect.objects.create(name="written")
        eventually(lambda: clock.now() > context.deadline)

    JobFactory(task=NAME, args=[])
    job = claim()
    with registered(write_too_late, atomic=True, timeout=SOON, takes_context=True):
        ended = atomic.run_and_settle(
            job, limited(job, None), using="default", settle=None
        )
    assert isinstance(ended.outcome, Failed)
    assert not Effect.objects.exists()


def test_the_next_job_of_the_thread_gets_connections_that_work(
    deadlines, caplog, monkeypatch
):
    """The first was interrupted in its transaction, perhaps in a statement."""
    # Not while it connects, if the machine stands still then: nobody could close that one.
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)

    def count_for_ever():
        with transaction.atomic():
            Effect.objects.create(name="never committed")
            count()

    def count():
        until = clock.now() + DEADLINE
        while clock.now() < until:
            Effect.objects.count()

    def write():
        Effect.objects.create(name="good")

    with registered(count_for_ever, name="tests.counts", timeout=SOON):
        for _ in range(20):
            job = claimed(task="tests.counts")
            connection.ensure_connection()
            outcome = runner.run(job, limited(job, deadlines))
            assert outcome.error["exception_class"] == TIMED_OUT
            assert connection.connection is None
            assert not connection.in_atomic_block
    job = claimed()
    with registered(write):
        assert runner.run(job, context_of(job)) == Succeeded("null")
    assert [effect.name for effect in Effect.objects.all()] == ["good"]
    assert "also left a transaction open" not in caplog.text


def test_a_transaction_around_the_run_is_left_alone(deadlines):
    """As when a test runs a job."""

    def nest():
        with transaction.atomic():
            Effect.objects.create(name="inside")
            loop()

    job = claimed()
    with transaction.atomic():
        Effect.objects.create(name="outside")
        with registered(nest, timeout=SOON):
            runner.run(job, limited(job, deadlines))
        assert [effect.name for effect in Effect.objects.all()] == ["outside"]


def test_in_process_a_late_result_does_not_count(announcement, settings):
    """Nothing can end the C call, so it goes on to its end; then its run has timed out."""
    settings.LEASEQUEUE = overrunning.SETTINGS
    job = overrunning.read_in_c.dispatch(announcement.path).job
    progress = Progress()
    worker = InProcess(options(threads=1), progress)
    with in_thread(worker.run) as running:
        announcement.wait()
        until = clock.now() + overrunning.TIMEOUT
        eventually(lambda: clock.now() > until)
        assert row(job)["status"] == Status.RUNNING
        announcement.release()
        eventually(lambda: progress.counts)
        worker.stop.request(Level.GRACEFUL, "the test is done")
        assert running.result() == 0
    values = row(job)
    assert progress.counts == {"failed": 1}
    assert (values["status"], values["attempts"]) == (Status.FAILED, 1)
    assert (values["result"], values["recoveries"]) == (None, 0)
    assert values["errors"][0]["exception_class"] == TIMED_OUT


# --- In place of a process that was killed


def overdue(job, wait=None):
    """A run of this job that was ended with its process."""
    run = TimedRun(job.processing_token, job.id, 30.0, clock.now() - 5.2, wait)
    return Overdue(run, 35.2)


def settled(job, wait=None):
    return overdue(job, wait).settle("default")[0].value


def test_the_job_has_failed_with_an_attempt():
    job = JobFactory(leased=True, claims=3, worker="host:1")
    verdict, killed = overdue(job).settle("default")
    assert verdict.value == "written"
    assert isinstance(killed.outcome, Failed)
    values = row(job)
    assert (values["status"], values["attempts"]) == (Status.FAILED, 1)
    assert (values["recoveries"], values["claims"]) == (0, 3)
    assert values["processing_token"] is None
    [error] = values["errors"]
    assert error["exception_class"] == TIMED_OUT
    assert error["message"] == (
        "The run took longer than its timeout of 30 s. It did not stop, so its process was "
        "killed after 35.2 s."
    )
    assert (error["attempt"], error["worker"]) == (1, "host:1")


def test_the_job_runs_again_after_its_wait():
    before = [describe_death("before", attempt=1, worker="w", at=JobFactory().run_at)]
    job = JobFactory(leased=True, attempts=1, max_attempts=3, errors=before)
    _, killed = overdue(job, wait=60.0).settle("default")
    assert isinstance(killed.outcome, RetryLater)
    job.refresh_from_db()
    assert (job.status, job.attempts) == (Status.PENDING, 2)
    assert [error["attempt"] for error in job.errors] == [1, 2]
    assert job.run_at - job.last_attempted_at > timedelta(seconds=60)


def test_the_error_bears_the_databases_present_time():
    """Not that of the claim, when the run was far from over."""
    job = JobFactory(leased=True)
    settled(job)
    job.refresh_from_db()
    assert job.errors[0]["at"] > job.last_attempted_at.isoformat()


@pytest.mark.parametrize(
    "fields",
    [
        {"succeeded": True, "last_token": "own"},
        {"leased": True},
        {"scheduled": True},
    ],
    ids=["it ended at the last moment", "another worker has it", "it was given back"],
)
def test_what_the_row_says_already_stays(fields):
    mine = JobFactory.build(leased=True)
    if fields.pop("last_token", None):
        fields["last_token"] = mine.processing_token
    job = JobFactory(**fields)
    before = row(job)
    mine.id = job.id
    assert settled(mine) == "lost"
    assert row(job) == before


@pytest.mark.parametrize("outcome", [Succeeded("1"), Cancelled()])
def test_what_its_process_commits_meanwhile_stays(monkeypatch, outcome):
    """By then the supervisor has seen the row as running, under the same token."""
    JobFactory()
    job, held = claim(), Overdue._held

    def commit_late(late, database):
        found = held(late, database)
        Job.objects.settle([(job, outcome)])
        return found

    monkeypatch.setattr(Overdue, "_held", commit_late)
    run = TimedRun(job.token, job.id, 30.0, clock.now() - 5.2, 60.0)
    verdict, _ = Overdue(run, 35.2).settle("default")
    assert verdict.value == "lost"
    assert row(job)["errors"] == []


def test_a_lease_that_is_past_is_left_to_the_next_claim():
    job = JobFactory(expired=True)
    before = row(job)
    assert settled(job) == "lost"
    assert row(job) == before


def test_a_cancel_that_was_asked_for_comes_before_a_retry():
    job = JobFactory(leased=True, cancel_requested_at=JobFactory().run_at)
    verdict, killed = overdue(job, wait=1.0).settle("default")
    assert (verdict.value, killed.outcome) == ("written", Cancelled())
    assert row(job)["status"] == Status.CANCELLED


def left_behind(*jobs, late):
    """What a child leaves that ran these jobs under one token, killed for `late`."""
    token = jobs[0].processing_token
    for job in jobs:
        job.processing_token = token
        job.save(update_fields=["processing_token"])
    terms = {job.id: Term(300.0, 30.0, clock.now()) for job in jobs}
    holding = Holding(token, "child", 0.0, terms)
    return PendingRelease("child", [holding], None, [overdue(job) for job in late])


def test_jobs_beside_it_are_given_back_uncounted():
    late, beside = JobFactory(leased=True), JobFactory(leased=True, recoveries=1)
    release = left_behind(late, beside, late=[late])
    release.give_back("default")
    assert release.is_settled
    assert release.ids == {beside.id}
    [killed] = release.take_killed()
    assert (killed.job_id, type(killed.outcome)) == (late.id, Failed)
    assert "beside them" in release.why
    values = row(beside)
    assert (values["status"], values["attempts"]) == (Status.PENDING, 0)
    assert (values["recoveries"], values["errors"]) == (1, [])


def test_several_may_be_overdue_at_once():
    jobs = [JobFactory(leased=True) for _ in range(2)]
    release = left_behind(*jobs, late=jobs)
    release.give_back("default")
    assert release.ids == set()
    killed = release.take_killed()
    assert {run.job_id for run in killed} == {job.id for job in jobs}
    assert release.take_killed() == []
    assert release.is_settled


def test_while_its_row_is_locked_it_is_not_given_back_with_the_others():
    if not connection.features.has_select_for_update:
        pytest.skip("rows can't be locked here")
    late, beside = JobFactory(leased=True), JobFactory(leased=True)
    release = left_behind(late, beside, late=[late])
    with locked([late]) as let_go:
        release.give_back("default")
        assert not release.is_settled
        assert row(late)["status"] == Status.RUNNING
        let_go()
        release.give_back("default")
    assert release.is_settled
    assert row(late)["status"] == Status.FAILED
    assert row(beside)["status"] == Status.PENDING
