"""worker.executor: jobs are run in threads and coroutines, and their outcomes stored."""

import logging
import threading

import pytest

from django_leasequeue.exceptions import JobRunAborted
from django_leasequeue.managers import JobQuerySet
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.signals import job_started
from django_leasequeue.states import Status
from django_leasequeue.transitions.settle import Settled, Verdict
from django_leasequeue.worker import atomic, forecast, runner
from django_leasequeue.worker import executor as executing
from django_leasequeue.worker.stop import Level
from tests import tasks, worker_tasks
from tests.executing import Working
from tests.factories import JobFactory
from tests.helpers import eventually, paused
from tests.road import row, toy
from tests.workers import end_leases, with_worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


@pytest.fixture
def working():
    working = Working()
    yield working
    working.executor.close(60, 0)


def test_both_kinds_of_tasks_are_run_and_free_their_places(working):
    assert working.executor.free == 1
    sync = tasks.add.dispatch(1, 1).job
    soon = worker_tasks.add_soon.dispatch(1, 2).job
    working.start_all()
    assert working.word(sync) == working.word(soon) == "succeeded"
    assert (row(sync)["result"], row(soon)["result"]) == (2, 3)
    eventually(lambda: working.executor.free == 1)
    assert len(working.running) == 0


def test_an_end_wakes_the_loop_once_if_it_makes_room(announcement):
    working = Working(async_tasks=2)
    worker_tasks.say_then_wait.dispatch(announcement.path)
    working.start_all()
    announcement.wait()
    for number in range(1, 4):
        assert working.executor.room() >= 1
        job = tasks.add.dispatch(1, number).job
        working.start_all()
        assert working.word(job) == "succeeded"
        eventually(lambda number=number: len(working.wakes) == number)
    assert working.executor.abandon(give_back=True) == 1
    # The last one wakes it for those who wait for nothing to be left.
    eventually(lambda: len(working.wakes) == 4)
    assert len(working.running) == 0
    working.executor.close(60, 1)


def test_after_a_stop_was_asked_for_no_job_starts(working, announcement):
    job = tasks.add.dispatch(1, 1).job
    working.stop.request(Level.GRACEFUL, "the test says so")
    working.start_all()
    assert working.word(job) == "given back"
    assert (row(job)["status"], row(job)["attempts"]) == (Status.PENDING, 0)


def test_a_job_that_still_waits_for_a_thread_is_given_back_at_a_stop(
    working, announcement
):
    first = tasks.announce_then_wait.dispatch(announcement.path).job
    second = tasks.add.dispatch(1, 1).job
    working.start_all()
    announcement.wait()
    assert working.executor.free < 0
    working.stop.request(Level.GRACEFUL, "the test says so")
    announcement.release()
    assert working.word(first) == "succeeded"
    assert working.word(second) == "given back"


def test_quick_jobs_are_claimed_ahead_and_slow_ones_are_not(
    working, announcement, monkeypatch
):
    # However slow this machine is.
    monkeypatch.setattr(forecast, "HORIZON", 1e4)
    assert working.executor.room() == working.executor.free == 1
    for _ in range(10):
        job = tasks.add.dispatch(1, 1).job
        working.start_all()
        assert working.word(job) == "succeeded"
    eventually(lambda: working.executor.room() > 100)
    # As long as the only thread has a job that takes its time, nobody would start soon.
    monkeypatch.setattr(executing, "HORIZON", 0)
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    working.start_all()
    announcement.wait()
    assert working.executor.room() == 0
    announcement.release()
    assert working.word(job) == "succeeded"
    eventually(lambda: working.executor.room() > 100)


def test_a_job_keeps_its_line_of_the_board_until_its_outcome_is_stored(working):
    """Else a death would not be counted for what ran and is not stored."""
    with paused(JobQuerySet, "settle") as pause:
        jobs = [tasks.add.dispatch(1, 1).job]
        working.start_all()
        pause.wait()
        jobs += [tasks.add.dispatch(1, number).job for number in range(10)]
        working.start_all()
        eventually(lambda: len(working.lines) == 11)
        assert len(set(working.lines.values())) == 11
        pause.resume()
    for job in jobs:
        assert working.word(job) == "succeeded"
    eventually(lambda: len(working.executor._lines) == working.executor._most_held)


def test_nothing_is_claimed_while_too_much_is_not_stored(working, monkeypatch):
    monkeypatch.setattr(working.executor, "_most_held", executing.LARGEST_CLAIM + 1)
    with paused(JobQuerySet, "settle") as pause:
        jobs = [tasks.add.dispatch(1, number).job for number in range(2)]
        working.start_all()
        pause.wait()
        eventually(lambda: working.executor.free == 1)
        assert working.executor.room() == 0
        woken = len(working.wakes)
        pause.resume()
    for job in jobs:
        assert working.word(job) == "succeeded"
    eventually(lambda: len(working.wakes) > woken)
    assert working.executor.room() >= 1


@pytest.mark.parametrize("given", [{"stop_after": 9}, {"suspects": "only"}])
def test_what_is_counted_or_runs_alone_is_not_claimed_ahead(given):
    working = Working(**given)
    for _ in range(10):
        job = tasks.add.dispatch(1, 1).job
        working.start_all()
        assert working.word(job) == "succeeded"
    eventually(lambda: working.executor.free == 1)
    assert working.executor.room() == 1
    working.executor.close(60, 0)


@pytest.fixture
def waiting(working, announcement):
    """A job that waits for the only thread, and a function that lets its turn come."""
    first = tasks.announce_then_wait.dispatch(announcement.path).job
    tasks.add.dispatch(1, 1)
    _, job = working.start_all()
    announcement.wait()

    def go_on():
        announcement.release()
        assert working.word(first) == "succeeded"
        eventually(lambda: working.executor.free == 1)

    return job, go_on


def test_a_job_that_does_not_start_soon_is_given_back(
    working, waiting, started, monkeypatch
):
    job, go_on = waiting
    monkeypatch.setattr(executing, "PATIENCE", 3600)
    working.executor.give_back_late()
    assert row(job)["status"] == Status.RUNNING
    monkeypatch.setattr(executing, "PATIENCE", -executing.HORIZON)
    working.executor.give_back_late()
    assert working.word(job) == "given back"
    after = row(job)
    assert (after["status"], after["attempts"]) == (Status.PENDING, 0)
    assert after["recoveries"] == 0
    go_on()
    assert job.id not in started


def test_a_job_that_was_cancelled_while_it_waited_is_not_called(
    working, waiting, started
):
    job, go_on = waiting
    Job.objects.filter(pk=job.id).cancel()
    working.running.cancel(job.token, [job.id])
    go_on()
    assert working.word(job) == "cancelled"
    assert row(job)["status"] == Status.CANCELLED
    assert job.id not in started


def test_a_job_whose_lease_ended_while_it_waited_is_not_called(
    working, waiting, started
):
    job, go_on = waiting
    end_leases(Job.objects.filter(pk=job.id))
    job.renewed_at -= job.lease
    go_on()
    assert working.word(job) == "lost"
    assert row(job)["status"] == Status.RUNNING
    assert job.id not in started


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_coroutines_run_at_once_than_there_are_places(limit, announcement):
    working = Working(async_tasks=limit)
    for number in range(limit + 2):
        worker_tasks.say_then_wait.dispatch(announcement.path, f"{number}")
    jobs = working.start_all()
    for _ in range(limit):
        announcement.wait()
    assert working.executor.free == -2
    begun = [run for run in working.running.unfinished() if run.started_at]
    assert len(begun) == limit
    working.stop.request(Level.GRACEFUL, "the test is done")
    assert working.executor.abandon(give_back=True) == limit + 2
    for job in jobs:
        assert working.word(job) == "given back"
    working.executor.close(60, limit)


@pytest.fixture
def started():
    """The jobs for which job_started was sent."""
    jobs = []

    def note(sender, claimed, **kwargs):
        jobs.append(claimed.id)

    job_started.connect(note)
    yield jobs
    job_started.disconnect(note)


async def soon(a, b):
    return a + b


@pytest.mark.parametrize(
    ("function", "given"),
    [(lambda a, b: a + b, {}), (soon, {}), (lambda a, b: a + b, {"atomic": True})],
    ids=["plain", "async", "atomic"],
)
def test_only_a_job_whose_task_is_called_is_said_to_start(
    working, started, function, given, caplog
):
    caplog.set_level(logging.INFO, "django_leasequeue.worker")
    with toy(function, name="toy.add", **given) as task:
        good = task.dispatch(1, 1).job
        bad = [
            JobFactory(task="toy.add", args=["too few"]),
            JobFactory(task="toy.add", args={"not": "a list"}),
            JobFactory(task="toy.add", args=[1, 1], recoveries=99, lost_alone=99),
            JobFactory(task="renamed.task"),
        ]
        working.start_all()
        words = [working.word(job) for job in (good, *bad)]
    assert words == ["succeeded", "failed", "failed", "failed", "to be retried"]
    said = [r.job_id for r in caplog.records if r.getMessage().endswith(" starts")]
    assert said == started == [good.pk]


@pytest.mark.parametrize("task", [tasks.add, worker_tasks.add_soon])
def test_even_an_error_of_the_workers_own_ends_in_an_outcome(
    working, task, monkeypatch, caplog
):
    def broken(job, context, begin):
        raise SystemError("in the worker")

    monkeypatch.setattr(runner, "run", broken)
    monkeypatch.setattr(runner, "arun", broken)
    job = task.dispatch(1, 1).job
    working.start_all()
    assert working.word(job) == "failed"
    assert "in the worker" in row(job)["errors"][0]["message"]
    assert "CRITICAL" in [record.levelname for record in caplog.records]


@pytest.mark.parametrize("task", [tasks.add, worker_tasks.add_soon])
def test_receivers_hear_of_the_start_and_spoil_nothing(working, task):
    heard = []

    def broken(**kwargs):
        raise ValueError("in a receiver")

    def sound(sender, claimed, **kwargs):
        heard.append((sender, claimed.id, Job.objects.get(pk=claimed.id).status))

    job_started.connect(broken)
    job_started.connect(sound)
    try:
        job = task.dispatch(1, 1).job
        working.start_all()
        assert working.word(job) == "succeeded"
    finally:
        job_started.disconnect(broken)
        job_started.disconnect(sound)
    assert heard == [(Job, job.id, Status.RUNNING)]


@pytest.mark.parametrize("task", [tasks.add, worker_tasks.add_soon])
def test_a_receiver_that_leaves_at_the_start_costs_no_run(working, task):
    def leave(**kwargs):
        raise SystemExit("a receiver had enough")

    job_started.connect(leave)
    try:
        job = task.dispatch(1, 1).job
        working.start_all()
        assert working.word(job) == "succeeded"
    finally:
        job_started.disconnect(leave)


def test_an_abandoned_run_no_longer_says_anything(announcement):
    working = Working()
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    working.start_all()
    announcement.wait()
    [run] = working.running.unfinished()
    assert working.executor.abandon(give_back=True) == 1
    with pytest.raises(JobRunAborted, match="the worker stopped"):
        run.context.check()
    assert working.word(job) == "given back"
    announcement.release()
    eventually(lambda: working.executor.free == 1)
    working.executor.close(60, 0)
    assert row(job)["status"] == Status.PENDING
    assert row(job)["attempts"] == 0


def test_an_abandoned_atomic_run_no_longer_says_anything_either(monkeypatch):
    working = Working()

    def run_and_settle(*args, **kwargs):
        assert working.executor.abandon(give_back=False) == 1
        return atomic.Ended(Succeeded(), Settled(Verdict.WRITTEN))

    monkeypatch.setattr(atomic, "run_and_settle", run_and_settle)
    worker_tasks.write_then_wait.dispatch("", "")
    working.start_all()
    eventually(lambda: working.executor.free == 1)
    working.executor.close(60, 0)
    assert working.words == {}


def test_abandoning_may_leave_the_giving_back_to_somebody_else(announcement):
    working = Working()
    for task in (tasks.announce_then_wait, worker_tasks.say_then_wait):
        task.dispatch(announcement.path)
    working.start_all()
    announcement.wait()
    announcement.wait()
    assert working.executor.abandon(give_back=False) == 2
    working.executor.close(60, 2)
    assert working.words == {}
    assert Job.objects.running().count() == 2
    announcement.release()
    ended = [t for t in threading.enumerate() if t.name == "leasequeue-async"]
    assert ended == []
