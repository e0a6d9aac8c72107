"""Callbacks and receivers of job_settled: called once an outcome is stored, and only then."""

import sys
import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import transaction

from django_leasequeue import Retry, Snooze
from django_leasequeue.backoff import Fixed
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, RetryLater, Succeeded
from django_leasequeue.signals import job_settled
from django_leasequeue.states import Status
from django_leasequeue.worker import atomic, callback_threads, vital
from django_leasequeue.worker.stop import Level
from tests.executing import Working
from tests.factories import JobFactory
from tests.helpers import eventually
from tests.road import claim, deadlock, row, toy
from tests.workers import end_leases

pytestmark = pytest.mark.django_db(transaction=True)

# What was called, as (option, EndedRun, status of the row then).
CALLED = []


@pytest.fixture(autouse=True)
def nothing_called_yet():
    CALLED.clear()


@pytest.fixture
def working():
    working = Working()
    yield working
    working.executor.close(60, 0)


@pytest.fixture
def errors(caplog):
    """The lines of the package's log that come with an exception."""
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name == "django_leasequeue.worker" and record.exc_info
    ]


def noting(option):
    def note(ended):
        status = Job.objects.filter(pk=ended.job_id).values_list("status", flat=True)
        CALLED.append((option, ended, status.first()))

    return note


def by_path(ended):
    noting("by path")(ended)


async def by_coroutine(ended):
    CALLED.append(("by coroutine", ended, (await Job.objects.aget()).status))


ALL = {option: noting(option) for option in ("on_success", "on_failure", "on_retry")}


@contextmanager
def receiving(*receivers):
    for receiver in receivers:
        job_settled.connect(receiver)
    try:
        yield
    finally:
        for receiver in receivers:
            job_settled.disconnect(receiver)


def done(working):
    """Wait until nothing is to be called any more, and return what was."""
    eventually(lambda: not len(working.running))
    return CALLED


def give(value):
    return value


async def give_soon(value):
    return value


def fail(value):
    raise ValueError(value)


async def fail_soon(value):
    raise ValueError(value)


KINDS = pytest.mark.parametrize(
    ("good", "bad", "given"),
    [
        (give, fail, {}),
        (give_soon, fail_soon, {}),
        (give, fail, {"atomic": True, "timeout": 60}),
    ],
    ids=["plain", "async", "atomic"],
)


@KINDS
def test_on_success(working, good, bad, given):
    with toy(good, name="toy.good", **ALL, **given) as task:
        job = task.using(meta={"by": 3}).dispatch("x").job
        working.start_all()
        [(option, ended, status)] = done(working)
    assert (option, status) == ("on_success", Status.SUCCEEDED)
    assert (ended.job_id, ended.task, ended.queue) == (job.pk, "toy.good", "default")
    assert (ended.args, ended.kwargs, ended.meta) == (["x"], {}, {"by": 3})
    assert (ended.attempt, ended.worker) == (1, "host:1")
    assert (ended.result, ended.error, ended.retry_in) == ("x", None, None)


@KINDS
def test_on_retry_then_on_failure(working, good, bad, given):
    given = {"max_attempts": 2, "backoff": Fixed(0, jitter=0), **given}
    with toy(bad, name="toy.bad", **ALL, **given) as task:
        job = task.dispatch("first").job
        working.start_all()
        eventually(lambda: not len(working.running))
        working.start_all()
        called = done(working)
    retry, failure = called
    assert [retry[0], failure[0]] == ["on_retry", "on_failure"]
    assert [retry[2], failure[2]] == [Status.PENDING, Status.FAILED]
    assert (retry[1].attempt, retry[1].retry_in) == (1, timedelta(0))
    assert (failure[1].attempt, failure[1].retry_in) == (2, None)
    assert [retry[1].error, failure[1].error] == row(job)["errors"]
    assert failure[1].error["message"] == "first"


@pytest.mark.parametrize("callback", [by_coroutine, f"{__name__}.by_path"])
@pytest.mark.parametrize("function", [give, give_soon])
def test_a_callback_may_be_a_coroutine_or_a_path(working, function, callback):
    with toy(function, on_success=callback) as task:
        task.dispatch("x")
        working.start_all()
        [(_, ended, status)] = done(working)
    assert (ended.result, status) == ("x", Status.SUCCEEDED)


def test_091_none_is_called_for_what_is_no_outcome_of_theirs(working):
    def snooze(value):
        raise Snooze(60)

    def discarded(value):
        raise Retry(60)

    with toy(snooze, name="toy.snooze", **ALL) as task:
        task.dispatch(1)
        working.start_all()
        assert done(working) == []
    # A retry that somebody has cancelled meanwhile ends the job.
    with toy(discarded, name="toy.retry", max_attempts=9, **ALL) as task:
        job = task.dispatch(1).job
        jobs = claim()
        Job.objects.filter(pk=job.pk).update(cancel_requested_at=DatabaseNow())
        with receiving(settled := Settled()):
            working.executor.start(jobs)
            assert working.word(job) == "cancelled"
            assert done(working) == []
    assert settled.heard == [(Job, job.pk, Cancelled())]
    assert row(job)["status"] == Status.CANCELLED


def test_091_none_is_called_for_a_run_that_a_deadlock_has_undone(working, monkeypatch):
    """The job runs again, with as many attempts left as before."""

    def undone(attempt):
        raise deadlock()

    monkeypatch.setattr(atomic._Attempt, "_work", undone)
    with (
        toy(give, name="toy.atomic", atomic=True, timeout=60, **ALL) as task,
        receiving(settled := Settled()),
    ):
        job = task.dispatch(1).job
        working.start_all()
        assert working.word(job) == "to be retried"
        assert done(working) == []
    [(_, _, outcome)] = settled.heard
    assert (type(outcome), outcome.counted) == (RetryLater, False)
    assert (row(job)["status"], row(job)["attempts"]) == (Status.PENDING, 0)


class Settled:
    """A receiver of job_settled, and what it has heard."""

    def __init__(self):
        self.heard = []

    def __call__(self, sender, claimed, outcome, **kwargs):
        self.heard.append((sender, claimed.id, outcome))


@pytest.mark.parametrize("given", [{}, {"atomic": True, "timeout": 60}])
@pytest.mark.parametrize("function", [give, fail])
def test_048_a_worker_that_lost_its_lease_calls_none(working, function, given):
    """Neither callbacks nor receivers: another worker has the job, and calls them."""
    with toy(function, name="toy.any", **ALL, **given) as task:
        job = task.dispatch("x").job
        stale = claim()
        end_leases(Job.objects.all())
        [taken] = claim()
        with receiving(settled := Settled()):
            working.executor.start(stale)
            assert working.word(job) == "lost"
            assert done(working) == settled.heard == []
            working.executor.start([taken])
            [(_, ended, _)] = done(working)
    assert len(settled.heard) == 1
    assert ended.job_id == job.pk


def test_062_the_worker_that_fails_a_poison_job_calls_on_failure(working):
    with toy(give, name="toy.poison", **ALL):
        JobFactory(task="toy.poison", args=["x"], recoveries=99, lost_alone=99)
        working.start_all()
        [(option, ended, status)] = done(working)
    assert (option, status) == ("on_failure", Status.FAILED)
    assert ended.error["exception_class"].endswith("WorkersLost")


def test_jobs_that_cannot_be_called(working):
    """Of an unknown task nothing is known to call; arguments may be none."""
    with toy(give, name="toy.give", **ALL):
        JobFactory(task="toy.give", args={"not": "a list"})
        JobFactory(task="renamed.task")
        working.start_all()
        [(option, ended, _)] = done(working)
    assert (option, ended.args, ended.kwargs) == ("on_failure", None, {})


def test_a_row_that_is_gone_is_told_of_all_the_same(working):
    with toy(give, name="toy.gone", retention=0, **ALL) as task:
        task.dispatch("x")
        working.start_all()
        [(option, ended, status)] = done(working)
    assert (option, ended.result, status) == ("on_success", "x", None)
    assert not Job.objects.exists()


# --- Errors


def raising(error):
    def callback(ended):
        transaction.atomic().__enter__()
        raise error

    return callback


async def leave_soon(ended):
    sys.exit("enough")


async def fail_later(ended):
    raise ValueError("a failure")


@pytest.mark.parametrize(
    ("callback", "kind"),
    [
        (raising(ValueError("a failure")), "ValueError"),
        (raising(SystemExit(3)), "SystemExit"),
        (fail_later, "ValueError"),
        (leave_soon, "RuntimeError"),
        ("surely_not_installed.tell", "ModuleNotFoundError"),
    ],
    ids=["error", "exit", "async", "async exit", "not there"],
)
def test_091_what_a_callback_raises_changes_nothing(working, callback, kind, errors):
    options = dict.fromkeys(ALL, callback)
    with toy(give, name="toy.good", **options) as good, toy(fail, **options) as bad:
        for _ in range(2):
            jobs = [good.dispatch("x").job, bad.dispatch("x").job]
            working.start_all()
            done(working)
            states = [row(job)["status"] for job in jobs]
            assert states == [Status.SUCCEEDED, Status.FAILED]
            assert row(jobs[0])["result"] == "x"
            for job, option in zip(jobs, ("on_success", "on_failure"), strict=True):
                [line] = [line for line in errors() if f"Job {job.pk} " in line]
                assert f"its callback {option} raised {kind};" in line


def test_091_receivers_hear_of_what_is_stored_and_spoil_nothing(working, errors):
    def broken(**kwargs):
        transaction.atomic().__enter__()
        raise ValueError("in a receiver")

    with toy(give, name="toy.give") as task, receiving(broken, settled := Settled()):
        first, second = (task.dispatch(n).job for n in (1, 2))
        working.start_all()
        done(working)
    assert sorted(settled.heard) == [
        (Job, first.pk, Succeeded("1")),
        (Job, second.pk, Succeeded("2")),
    ]
    assert [row(job)["status"] for job in (first, second)] == [Status.SUCCEEDED] * 2
    for job in (first, second):
        [line] = [line for line in errors() if f"Job {job.pk} " in line]
        assert "in job_settled" in line and "raised ValueError" in line


def test_a_receiver_that_ends_its_thread_ends_none(working, errors):
    def leave(**kwargs):
        sys.exit("a receiver had enough")

    with toy(give, **ALL) as task, receiving(leave):
        for n in range(3):
            task.dispatch(n)
            working.start_all()
            eventually(lambda: not len(working.running))
    assert len(CALLED) == 3
    assert len(errors()) == 3


# --- Slow ones


class Held:
    """A callback that waits until it is let go."""

    def __init__(self):
        self.came, self.go = threading.Semaphore(0), threading.Event()

    def __call__(self, ended):
        self.came.release()
        assert self.go.wait(60)


@pytest.fixture
def held():
    held = Held()
    yield held
    held.go.set()


def test_a_slow_callback_holds_up_no_outcome(working, held):
    """Nor the thread of the job; the run counts as unfinished, so that a stop waits."""
    with toy(give, on_success=held) as task:
        first = task.dispatch(1).job
        working.start_all()
        assert held.came.acquire(timeout=60)
        second = task.dispatch(2).job
        working.start_all()
        assert [working.word(job) for job in (first, second)] == ["succeeded"] * 2
        assert row(second)["status"] == Status.SUCCEEDED
        assert len(working.running) == 2
        assert working.executor.room() >= 1
        before = len(working.wakes)
        held.go.set()
        done(working)
        eventually(lambda: len(working.wakes) > before)


def test_too_many_slow_callbacks_hold_up_claims(working, held, monkeypatch):
    monkeypatch.setattr(callback_threads, "_ENOUGH", 2)
    with toy(give, on_success=held) as task:
        for n in range(2):
            task.dispatch(n)
        working.start_all()
        eventually(lambda: working.executor.room() == 0)
        before = len(working.wakes)
        held.go.set()
        done(working)
        eventually(lambda: len(working.wakes) > before)
        assert working.executor.room() >= 1


def test_each_thread_calls_one_at_a_time(held):
    working = Working(threads=2)
    with toy(give, on_success=held) as task:
        jobs = [task.dispatch(n).job for n in range(3)]
        working.start_all()
        assert [working.word(job) for job in jobs] == ["succeeded"] * 3
        for _ in range(2):
            assert held.came.acquire(timeout=60)
        assert not held.came.acquire(blocking=False)
        held.go.set()
        assert held.came.acquire(timeout=60)
        done(working)
    working.executor.close(60, 0)


def test_a_stop_says_which_callbacks_it_cuts_off(held, caplog, monkeypatch):
    monkeypatch.setattr("django_leasequeue.worker.executor._CALLING", 0.01)
    working = Working()
    with toy(give, on_success=held) as task:
        first, second = (task.dispatch(n).job for n in range(2))
        working.start_all()
        assert [working.word(job) for job in (first, second)] == ["succeeded"] * 2
        assert held.came.acquire(timeout=60)
        working.stop.request(Level.GRACEFUL, "the test says so")
        assert working.executor.abandon(give_back=True) == 0
        assert working.executor.close(60, 0) == 1
    told = [r.getMessage() for r in caplog.records if "callbacks" in r.getMessage()]
    assert told == [
        f"The worker stops, and callbacks are not called: those of job {second.pk}.",
        f"The worker stops, and callbacks have not ended in time: those of job {first.pk}.",
    ]
    # What is late ends all the same, once it may.
    held.go.set()
    for thread in working.executor._callbacks._threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not held.came.acquire(blocking=False)


# --- A machine that has no more threads


@pytest.fixture
def no_threads(monkeypatch):
    """Let this process start only so many threads for callbacks: `no_threads(left)`."""
    ends, start = [], threading.Thread.start
    monkeypatch.setattr(vital.os, "_exit", ends.append)

    def from_now_on(left):
        started = []

        def refuse(thread):
            if thread.name.startswith("leasequeue-callbacks"):
                if len(started) >= left:
                    raise RuntimeError("can't start new thread")
                started.append(thread)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)

    yield from_now_on
    assert ends == []


def test_without_a_thread_none_are_called_and_it_says_so(working, no_threads, caplog):
    """What stores the outcomes goes on."""
    no_threads(0)
    with toy(give, **ALL) as task:
        for n in range(2):
            job = task.dispatch(n).job
            working.start_all()
            assert working.word(job) == "succeeded"
            assert done(working) == []
            text = f"so callbacks are not called: those of job {job.pk}."
            assert text in caplog.text
        assert working.executor.room() >= 1
        no_threads(1)
        task.dispatch("now")
        working.start_all()
        [(_, ended, _)] = done(working)
    assert ended.args == ["now"]


def test_with_one_thread_less_the_others_call_all(no_threads, held):
    no_threads(1)
    working = Working(threads=2)
    with toy(give, on_success=held) as task:
        for n in range(2):
            task.dispatch(n)
        working.start_all()
        assert held.came.acquire(timeout=60)
        held.go.set()
        assert held.came.acquire(timeout=60)
        done(working)
    assert working.executor.close(60, 0) == 0
