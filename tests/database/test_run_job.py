"""One job by its id: `run_job` and `runjobs --job`."""

import os
import re
import signal
import threading
import uuid

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from django_leasequeue import Retry, Snooze, run_job
from django_leasequeue.exceptions import JobNotRunnable
from django_leasequeue.models import Job, Queue, Worker
from django_leasequeue.states import Status
from django_leasequeue.worker import single
from django_leasequeue.worker.pruner import Pruner
from tests import tasks, worker_tasks
from tests.claims import registered
from tests.factories import JobFactory
from tests.helpers import DEADLINE, eventually, in_thread, together
from tests.models import Effect
from tests.road import claim, connection_lost, locked, row, table
from tests.workers import SETTINGS, with_worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)
QUERYSET = type(Job.objects.none())


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def command(job, *arguments):
    """Run the command for a job; returns the error that ends it, None if none does."""
    try:
        call_command("runjobs", f"--job={job.pk}", *arguments)
    except CommandError as error:
        return error


# --- What is run


@pytest.mark.parametrize(
    "given", [{}, {"scheduled": True}, {"suspect": 1, "recoveries": 1}], ids=str
)
def test_a_pending_job_is_run_here_and_no_other(given):
    """Due or not, of whatever kind."""
    job = JobFactory(task="tests.tasks.record_effect", args=["here"], **given)
    other = JobFactory(priority=100)
    assert run_job(job.pk) == "succeeded"
    values = row(job)
    assert (values["status"], values["attempts"], values["claims"]) == (
        Status.SUCCEEDED,
        1,
        1,
    )
    assert Effect.objects.get().pid == os.getpid()
    assert row(other)["claims"] == 0


def test_a_job_of_a_paused_queue_is_run():
    Queue.objects.pause("mail")
    job = tasks.add.using(queue="mail").dispatch(1, 2).job
    assert command(job) is None
    assert row(job)["result"] == 3


def test_an_async_task():
    job = worker_tasks.add_soon.dispatch(1, 2).job
    assert run_job(job.pk) == "succeeded"


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_of_another_database():
    jobs = [tasks.add.using(database="other").dispatch(1, 2).job for _ in range(2)]
    assert run_job(jobs[0].pk, using="other") == "succeeded"
    assert command(jobs[1], "--database=other") is None
    assert {row(job, "other")["status"] for job in jobs} == {Status.SUCCEEDED}


def ask_for(error):
    def ask():
        raise error

    return ask


@pytest.mark.parametrize(
    ("error", "attempts", "word", "status"),
    [
        (ValueError("no"), 1, "failed", Status.FAILED),
        (Retry(delay=60), 2, "to be retried", Status.PENDING),
        (Snooze(60), 1, "snoozed", Status.PENDING),
    ],
    ids=["failed", "retry", "snooze"],
)
def test_a_run_that_does_not_succeed(error, attempts, word, status):
    """The word says how it has ended, and the command exits with 1."""
    given = {"task": "tests.asks", "args": [], "max_attempts": attempts}
    with registered(ask_for(error), name="tests.asks"):
        job, again = JobFactory(**given), JobFactory(**given)
        assert run_job(job.pk) == word
        ended = command(again)
    assert row(job)["status"] == row(again)["status"] == status
    assert (str(ended), ended.returncode) == (f"Job {again.pk}: {word}.", 1)


# --- What is not


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"leased": True}, "another worker has it, on a lease until {until}."),
        (
            {"expired": True},
            "another worker had it, on a lease that ended at {until}; the next worker that "
            "looks recovers it.",
        ),
        ({"succeeded": True}, "it has ended: succeeded, {until}."),
        ({"failed": True}, "it has ended: failed, {until}."),
        ({"cancelled": True}, "it has ended: cancelled, {until}."),
        ({"blocked": 9}, "it waits for others to end."),
    ],
    ids=str,
)
def test_a_job_that_is_not_pending(given, why):
    """It says why, in local time, the command exits with 2, and nothing changes."""
    job = JobFactory(**given)
    before = row(job)
    instant = before["processing_until"] or before["finished_at"]
    if instant is not None:
        local = instant.astimezone(timezone.get_default_timezone())
        why = why.format(until=f"{local:%Y-%m-%d %H:%M:%S %Z}")
    with pytest.raises(JobNotRunnable, match=re.escape(why)) as caught:
        run_job(job.pk)
    assert caught.value.job_id == job.pk
    error = command(job)
    assert str(error) == str(caught.value)
    assert error.returncode == 2
    assert row(job) == before


def test_a_job_that_waits_for_a_group():
    JobFactory(group="import")
    job = tasks.add.using(after_group="import").dispatch(1, 2).job
    with pytest.raises(JobNotRunnable, match="jobs of the group 'import' wait or run"):
        run_job(job.pk)


def test_the_last_job_of_a_group_lets_go_what_waited_for_it():
    last = tasks.add.using(group="import").dispatch(1, 2).job
    job = tasks.add.using(after_group="import").dispatch(1, 2).job
    assert run_job(last.pk) == "succeeded"
    assert run_job(job.pk) == "succeeded"


def test_a_job_that_there_is_not():
    gone = JobFactory()
    gone_pk = gone.pk
    gone.delete()
    with pytest.raises(JobNotRunnable, match="there is none in database 'default'"):
        run_job(gone_pk)


def test_a_row_that_somebody_has_locked(monkeypatch):
    """It is asked for again for a while."""
    if not connection.features.has_select_for_update:
        pytest.skip("no row locks")
    job = JobFactory()
    monkeypatch.setattr(single, "_PATIENCE", 0.1)
    with locked([job]), pytest.raises(JobNotRunnable, match="has its row locked"):
        run_job(job.pk)
    monkeypatch.setattr(single, "_PATIENCE", DEADLINE)
    tried, real = threading.Event(), QUERYSET.claim_job

    def claim_job(*arguments):
        found = real(*arguments)
        tried.set()
        return found

    monkeypatch.setattr(QUERYSET, "claim_job", claim_job)
    with locked([job]) as let_go, in_thread(lambda: run_job(job.pk)) as running:
        assert tried.wait(DEADLINE)
        let_go()
        assert running.result() == "succeeded"


def test_a_claim_whose_answer_is_lost_is_taken_back(monkeypatch):
    """The job is pending again, and nobody counts what has not been."""
    job, real = JobFactory(), QUERYSET.claim_job

    def lost(jobs, *arguments):
        assert real(jobs, *arguments) is not None
        raise connection_lost()

    monkeypatch.setattr(QUERYSET, "claim_job", lost)
    error = command(job)
    assert error.returncode == 2
    values = row(job)
    assert (values["status"], values["attempts"]) == (Status.PENDING, 0)


@pytest.mark.parametrize("given", [None, True, 1.5, "1", b"1", float("inf")], ids=repr)
def test_what_is_no_id(given):
    JobFactory(pk=1)
    with pytest.raises(TypeError, match="job_id must be an int"):
        run_job(given)
    assert row(1)["claims"] == 0


def test_not_in_a_transaction():
    with transaction.atomic(), pytest.raises(RuntimeError, match="in a transaction"):
        run_job(JobFactory().pk)


def test_not_without_autocommit():
    """Which is as good as in one: nothing of it is lost."""
    job = JobFactory()
    transaction.set_autocommit(False)
    try:
        written = JobFactory()
        with pytest.raises(RuntimeError, match="in a transaction"):
            run_job(job.pk)
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert [row(one)["claims"] for one in (job, written)] == [0, 0]


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_the_caller_keeps_its_connections():
    """With whatever it has in their sessions; one in a transaction is left alone, too."""
    aliases = ["default", "other"]
    for alias in aliases:
        connections[alias].ensure_connection()
    before = [connections[alias].connection for alias in aliases]
    connections["other"].set_autocommit(False)
    try:
        assert run_job(JobFactory().pk) == "succeeded"
        assert [connections[alias].connection for alias in aliases] == before
    finally:
        connections["other"].set_autocommit(True)
    assert connections["default"].is_usable()


def test_the_caller_does_not_prune(monkeypatch):
    """It is asked for one job: the table is for the workers."""
    started = []
    monkeypatch.setattr(Pruner, "start", lambda self: started.append(self))
    assert run_job(JobFactory().pk) == "succeeded"
    assert started == []
    call_command("runjobs", "--in-process", "--drain")
    assert len(started) == 1


# --- Beside others


def test_of_many_at_once_one_runs_it(tmp_path):
    """The others are told so."""
    path = tmp_path / "runs"
    for number in range(3):
        job = JobFactory(task="tests.tasks.record_run", args=[str(path), f"{number}"])
        ended = together(4, lambda _, job=job: run_job(job.pk), return_exceptions=True)
        words = [word for word in ended if isinstance(word, str)]
        assert words == ["succeeded"], ended
        assert sum(isinstance(error, JobNotRunnable) for error in ended) == 3, ended
        assert row(job)["claims"] == 1
    assert path.read_text().split() == ["0", "1", "2"]


def test_beside_claims_each_job_is_taken_once():
    """Whoever asks for jobs by id, and whoever takes what is due."""
    ids = [job.pk for job in JobFactory.create_batch(30)]

    def by_id(_):
        found = [Job.objects.claim_job(pk, uuid.uuid4(), "by id") for pk in ids]
        return [job.id for job in found if job]

    def as_due(_):
        return [job.id for _ in range(10) for job in claim(3)]

    taken = together(4, lambda number: (by_id if number % 2 else as_due)(number))
    assert sorted(pk for mine in taken for pk in mine) == ids
    assert {values["claims"] for values in table().values()} == {1}


def test_it_is_no_worker_that_others_see(announcement):
    """And its lease is renewed for as long as it runs, which the keeper's tests show."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    with in_thread(lambda: run_job(job.pk)) as running:
        announcement.wait()
        assert row(job)["status"] == Status.RUNNING
        assert not Worker.objects.exists()
        announcement.release()
        assert running.result() == "succeeded"


def test_a_stop_gives_it_back(worker_process, announcement):
    """As of any worker: after the time that running jobs have to end."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker_process(
        f"--job={job.pk}", "--shutdown-timeout=0", settings=SETTINGS
    )
    announcement.wait()
    process.send(signal.SIGTERM)
    assert process.wait() == 1
    values = row(job)
    assert (values["status"], values["attempts"]) == (Status.PENDING, 0)
    announcement.release()


def test_a_signal_that_does_not_interrupt_the_wait_is_heard():
    """As one that comes just before it: here, one that another thread is given."""

    def be_told(context):
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        eventually(lambda: context.stopping)

    with registered(be_told, name="tests.is_told", takes_context=True):
        assert run_job(JobFactory(task="tests.is_told", args=[]).pk) == "succeeded"
