"""Jobs of Django's tasks, run by this package's worker, beside jobs of its own tasks."""

import contextlib
import sys
import threading
from datetime import timedelta

import pytest

pytest.importorskip("django.tasks", reason="came with Django 6.0")

from django.core.management import CommandError, call_command
from django.db import transaction
from django.tasks import default_task_backend, task
from django.tasks.signals import task_enqueued, task_finished, task_started
from django.utils import timezone

from django_leasequeue import registry, run_job
from django_leasequeue.backend import LeaseQueueBackend
from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import (
    JobCancelled,
    JobFailed,
    JobWasCancelled,
    UnsupportedResult,
    WorkersLost,
)
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled
from django_leasequeue.worker import events
from tests import django_tasks as tasks
from tests import tasks as own
from tests import worker_tasks
from tests.factories import JobFactory
from tests.models import Effect
from tests.road import claim
from tests.workers import end_leases

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def configured(settings):
    settings.LEASEQUEUE = tasks.SETTINGS


def drain():
    with contextlib.suppress(CommandError):
        call_command("runjobs", "--in-process", "--drain", verbosity=0)


def run(result):
    """Have the job of a result run here, and return the result as it is then."""
    run_job(int(result.id))
    result.refresh()
    return result


@pytest.fixture
def told():
    """What the three signals tell: (signal, id, status, what else was seen)."""
    seen = []

    def receiver(name):
        def receive(sender, task_result, **kwargs):
            assert sender is LeaseQueueBackend
            seen.append((name, task_result, threading.current_thread().name))

        return receive

    signals = {
        "enqueued": task_enqueued,
        "started": task_started,
        "finished": task_finished,
    }
    receivers = {name: receiver(name) for name in signals}
    for name, signal in signals.items():
        signal.connect(receivers[name])
    yield seen
    for name, signal in signals.items():
        signal.disconnect(receivers[name])


# --- What becomes of a task


def test_tasks_of_both_decorators_in_one_worker():
    """Plain and async, enqueued and dispatched, in whatever order."""
    results = [tasks.answer.enqueue(), tasks.answer_soon.enqueue()]
    results += [tasks.take_all.enqueue(1, two=3), tasks.take_all_soon.enqueue()]
    sent = tasks.send_mail.enqueue("ann@example.com")
    jobs = [own.add.dispatch(1, 2).job, worker_tasks.add_soon.dispatch(1, 2).job]
    before = [result.status for result in results]
    drain()
    assert before == [result.status for result in results] == ["READY"] * 4
    for result in [*results, sent]:
        result.refresh()
        assert (result.status, result.is_finished) == ("SUCCESSFUL", True)
        assert result.enqueued_at <= result.started_at <= result.finished_at
        assert result.last_attempted_at == result.started_at
        assert (result.attempts, len(result.worker_ids)) == (1, 1)
        assert result.errors == []
    assert [result.return_value for result in results] == [42, 42, None, None]
    assert (results[2].args, results[2].kwargs) == ([1], {"two": 3})
    assert sent.return_value == "sent to ann@example.com"
    assert (sent.task.queue_name, sent.task.priority) == ("mail", 7)
    assert [Job.objects.get(pk=job.pk).result for job in jobs] == [3, 3]


@pytest.mark.parametrize("kind", ["ValueError", "SystemExit", "KeyboardInterrupt"])
def test_errors(kind):
    """Also those that would end a process: the worker goes on."""
    result = run(tasks.fail.enqueue(kind))
    assert (result.status, result.is_finished) == ("FAILED", True)
    with pytest.raises(ValueError, match="failed"):
        result.return_value  # noqa: B018
    [error] = result.errors
    assert error.exception_class.__name__ == kind
    assert error.traceback.startswith("Traceback")
    assert error.traceback.rstrip().endswith(f"{kind}: as asked")
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.args == [kind]


def test_an_error_that_holds_another():
    result = run(tasks.fail.enqueue("nested"))
    assert result._return_value is None
    assert result.errors[0].exception_class is ValueError
    assert result.errors[0].traceback.endswith("ValueError: as asked\n")


def test_a_task_that_leaves_its_process():
    result, other = tasks.leave.enqueue(1), tasks.answer.enqueue()
    drain()
    result.refresh()
    other.refresh()
    assert (result.status, other.status) == ("FAILED", "SUCCESSFUL")


def test_return_values_that_are_no_json():
    """As with Django's own backends; not run again, for it would return the same."""
    result = run(tasks.give_function.using(max_attempts=3).enqueue())
    assert (result.status, result._return_value) == ("FAILED", None)
    [error] = result.errors
    assert issubclass(error.exception_class, TypeError)
    assert error.exception_class is UnsupportedResult
    assert "Unsupported type" in error.traceback


def test_return_values_and_arguments_become_json():
    """Tuples, bytes and subclasses, as Django's own backends take them."""
    assert run(tasks.give_tuple.enqueue()).return_value == [1, "two", {"three": [3]}]
    word = type("Word", (str,), {})("word")
    result = tasks.give_back.enqueue((word, b"two", True, None))
    assert result.args == [["word", "two", True, None]]
    assert run(result).return_value == ["word", "two", True, None]


# --- Context


def test_the_context():
    result = run(tasks.tell_context.using(meta={"by": 1}).enqueue(1))
    assert result.return_value == {
        "is_context": True,
        "attempt": True,
        "job_id": True,
        "status": "RUNNING",
        "args": [1],
        "workers": 1,
        "started": True,
    }
    assert run(result := tasks.own_id.enqueue()).return_value == result.id


def test_the_context_of_a_coroutine():
    result = run(tasks.tell_context_soon.enqueue())
    assert result.return_value == [result.id, 1]


# --- Signals


def test_signals_of_a_success(told):
    result = tasks.give_back.enqueue("x")
    tasks.answer_soon.enqueue()
    drain()
    names = [name for name, seen, _ in told if seen.id == result.id]
    assert names == ["enqueued", "started", "finished"]
    assert sorted(name for name, *_ in told) == sorted(names * 2)
    enqueued, started, finished = (one for _, one, _ in told if one.id == result.id)
    assert [enqueued.status, started.status, finished.status] == [
        "READY",
        "RUNNING",
        "SUCCESSFUL",
    ]
    assert finished.return_value == "x"
    result.refresh()
    # Read here from the row, as a receiver would.
    assert finished.task == result.task
    assert finished.finished_at == result.finished_at
    assert finished.worker_ids == result.worker_ids
    assert (finished.args, finished.errors) == (["x"], [])


def test_task_finished_is_sent_for_the_last_failure_only(told):
    result = tasks.fail.using(max_attempts=2).enqueue()
    run(result)
    assert (result.status, len(result.errors)) == ("READY", 1)
    run(result)
    assert [name for name, *_ in told] == ["enqueued", "started", "started", "finished"]
    _, finished, _ = told[-1]
    assert finished.status == "FAILED"
    assert len(finished.errors) == len(result.errors) == 2


def test_task_finished_of_a_job_that_is_removed_at_once(told, settings):
    """What the row can't tell any more is what the worker knows."""
    settings.LEASEQUEUE = {**tasks.SETTINGS, "RETENTION": {"succeeded": 0}}
    result = tasks.answer.enqueue()
    drain()
    assert not Job.objects.exists()
    _, finished, _ = told[-1]
    assert (finished.id, finished.return_value) == (result.id, 42)
    assert finished.started_at <= finished.finished_at
    assert finished.attempts == 1


def test_an_error_of_a_receiver_changes_nothing(caplog):
    def receive(task_result, **kwargs):
        raise OSError("as asked")

    for signal in (task_started, task_finished):
        signal.connect(receive)
    try:
        result = run(tasks.answer.enqueue())
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(receive)
    assert result.return_value == 42
    told = [record.signal for record in caplog.records if hasattr(record, "signal")]
    assert told == ["task_started", "task_finished"]


def test_an_error_of_a_receiver_of_task_enqueued_is_the_callers():
    """As with Django's own backends; the job is stored."""

    def receive(task_result, **kwargs):
        raise OSError("as asked")

    task_enqueued.connect(receive)
    try:
        with pytest.raises(OSError):
            tasks.answer.enqueue()
    finally:
        task_enqueued.disconnect(receive)
    assert Job.objects.count() == 1


def test_what_is_logged(caplog):
    caplog.set_level("DEBUG", "django.tasks")
    good, bad = tasks.answer.enqueue(), tasks.fail.enqueue()
    drain()
    lines = [record for record in caplog.records if record.name == "django.tasks"]
    for result, last in [(good, "SUCCESSFUL"), (bad, "FAILED")]:
        mine = [one for one in lines if f"id={result.id} " in one.getMessage()]
        assert ["enqueued" in mine[0].getMessage(), len(mine)] == [True, 3]
        assert "state=RUNNING" in mine[1].getMessage()
        assert f"state={last}" in mine[2].getMessage()
    *_, good_end = (one for one in lines if "SUCCESSFUL" in one.getMessage())
    *_, bad_end = (one for one in lines if "FAILED" in one.getMessage())
    assert (good_end.exc_info, good_end.levelname) == (None, "INFO")
    assert bad_end.levelname == "ERROR"
    assert bad_end.exc_info[0] is JobFailed and "as asked" in caplog.text
    [note] = bad_end.exc_info[1].__notes__
    assert note.startswith("Traceback") and "as asked" in note


def test_an_atomic_task(told, settings, monkeypatch):
    """Its writes and its success commit together; signals are sent as of any other."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    options = {"atomic": True, "timeout": 60}
    settings.TASKS = {
        "default": {"BACKEND": tasks_path(LeaseQueueBackend), "OPTIONS": options}
    }
    effect = task(tasks.effect_of)
    good, bad = effect.enqueue("good"), effect.enqueue("bad")
    drain()
    assert list(Effect.objects.values_list("name", flat=True)) == ["good"]
    ends = {seen.id: seen.status for name, seen, _ in told if name == "finished"}
    assert ends == {good.id: "SUCCESSFUL", bad.id: "FAILED"}


def tasks_path(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


# --- Statuses


def test_a_cancelled_job_has_failed(told):
    result = tasks.answer.enqueue()
    Job.objects.filter(pk=result.id).cancel()
    result.refresh()
    assert result.status == "FAILED"
    [error] = result.errors
    assert error.exception_class is JobCancelled
    assert f"Job {result.id} was cancelled" in error.traceback


def test_a_run_that_is_cancelled_is_told(told):
    errors = []

    def receive(task_result, **kwargs):
        errors.append((sys.exc_info()[0], task_result.errors[-1].exception_class))

    task_finished.connect(receive)
    try:
        tasks.answer.enqueue()
        [job] = claim()
        events.settled(job, registry.get(job.task), Cancelled(), "default")
    finally:
        task_finished.disconnect(receive)
    assert errors == [(JobWasCancelled, JobCancelled)]


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({}, "READY"),
        ({"scheduled": True}, "READY"),
        ({"leased": True}, "RUNNING"),
        ({"expired": True}, "RUNNING"),
        ({"succeeded": True}, "SUCCESSFUL"),
        ({"failed": True}, "FAILED"),
        ({"cancelled": True}, "FAILED"),
    ],
    ids=str,
)
def test_every_status(state, status):
    """Of a job of this package's own decorator, for which there is a result as well."""
    job = JobFactory(**state)
    result = default_task_backend.get_result(str(job.pk))
    assert result.status == status
    assert result.task.module_path == "tests.tasks.add"
    assert result.task.func is own.add.options.func


def test_a_run_whose_worker_was_lost():
    """Both workers are told, and the loss if it was seen; the attempt is the first."""
    result = tasks.tell_context.enqueue(1)
    [job] = claim()
    assert Job.objects.release(job.token, death="killed by SIGKILL", alone=True)
    result.refresh()
    assert (result.status, result.attempts) == ("READY", 1)
    assert result.errors[0].exception_class is WorkersLost
    assert "SIGKILL" in result.errors[0].traceback
    run(result)
    assert (result.status, result.attempts) == ("SUCCESSFUL", 2)
    assert result.worker_ids[0] == job.worker != result.worker_ids[1]
    assert result.started_at < result.last_attempted_at
    assert result.return_value["attempt"] is True


def test_an_expired_lease_is_running_until_somebody_takes_the_job():
    result = tasks.answer.enqueue()
    claim()
    end_leases(Job.objects)
    result.refresh()
    assert (result.status, result.attempts) == ("RUNNING", 1)
    drain()
    result.refresh()
    assert (result.status, result.attempts) == ("SUCCESSFUL", 2)


def test_a_list_of_workers_that_was_cut():
    """Its oldest may be half a name."""
    job = JobFactory(worker_ids="0:1\n" + "host:123\n" * 444)
    assert len(job.worker_ids) == 4000
    result = default_task_backend.get_result(str(job.pk))
    assert set(result.worker_ids) == {"host:123"}


def test_what_somebody_broke_by_hand_can_be_shown():
    job = JobFactory()
    Job.objects.update(args="no list", errors=[1, {}])
    result = default_task_backend.get_result(str(job.pk))
    assert result.args == []
    assert [error.traceback for error in result.errors] == [""]


# --- When, where


def test_run_after_and_priority():
    later = timezone.now() + timedelta(hours=10)
    ends = []
    given = [("a", 0, None), ("b", 10, None), ("c", 100, later), ("d", -2, None)]
    results = {
        name: tasks.give_back.using(priority=priority, run_after=when).enqueue(name)
        for name, priority, when in given
    }
    drain()
    for result in results.values():
        result.refresh()
        if result.is_finished:
            ends.append((result.started_at, result.return_value))
    assert {value for _, value in ends} == {"a", "b", "d"}
    assert results["c"].status == "READY"
    Job.objects.filter(pk=results["c"].id).update(run_at=DatabaseNow())
    drain()
    results["c"].refresh()
    assert results["c"].return_value == "c"
    claims = Job.objects.order_by("-priority").values_list("args", flat=True)
    assert [args[0] for args in claims] == ["c", "b", "a", "d"]


def test_queues_of_the_worker():
    mail, other = tasks.send_mail.enqueue("ann"), tasks.answer.enqueue()
    with contextlib.suppress(CommandError):
        call_command("runjobs", "--in-process", "--drain", "--queues=mail", verbosity=0)
    mail.refresh()
    other.refresh()
    assert (mail.status, other.status) == ("SUCCESSFUL", "READY")


def test_in_a_transaction():
    """A job is there at its commit and not before, and gone with a rollback."""
    with transaction.atomic():
        result = tasks.answer.enqueue()
        assert result.enqueued_at is not None
        assert tasks.answer.get_result(result.id) == result
    assert run(result).return_value == 42
    with contextlib.suppress(OSError), transaction.atomic():
        tasks.answer.enqueue()
        raise OSError
    assert Job.objects.count() == 1
