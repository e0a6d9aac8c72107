"""django.tasks with this backend: what Django's own tests of its task API expect of one.

Which of those each test stands for is in tests/django_suite.py. They need no worker.
"""

import dataclasses
import pickle
from datetime import datetime, timedelta

import django
import pytest
from asgiref.sync import async_to_sync

pytest.importorskip("django.tasks", reason="came with Django 6.0")

from django.tasks import Task, default_task_backend, task, task_backends
from django.tasks.backends.immediate import ImmediateBackend
from django.tasks.base import TaskError
from django.tasks.exceptions import (
    InvalidTask,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
    TaskResultMismatch,
)
from django.utils import timezone
from django.utils.module_loading import import_string

from django_leasequeue.backend import LeaseQueueBackend, LeaseTask
from django_leasequeue.models import Job
from tests import django_tasks as tasks

OURS = "django_leasequeue.backend.LeaseQueueBackend"
IMMEDIATE = "django.tasks.backends.immediate.ImmediateBackend"


@pytest.fixture(autouse=True)
def configured(settings):
    settings.LEASEQUEUE = tasks.SETTINGS
    settings.TASKS = {
        "default": {"BACKEND": OURS, "QUEUES": ["default", "mail"]},
        "anything": {"BACKEND": OURS, "QUEUES": []},
        "immediate": {"BACKEND": IMMEDIATE, "QUEUES": []},
        "missing": {"BACKEND": "no.such.Backend"},
    }


def awaited(function, *args, **kwargs):
    """Call a coroutine function and return what comes of it."""
    return async_to_sync(function)(*args, **kwargs)


# --- The backend of a task


def test_the_backend_is_ours():
    assert default_task_backend == task_backends["default"]
    assert isinstance(task_backends["default"], LeaseQueueBackend)
    assert default_task_backend.alias == "default"
    assert default_task_backend.options == {}


def test_a_task_knows_its_backend():
    assert tasks.answer.backend == "default"
    assert isinstance(tasks.answer.get_backend(), LeaseQueueBackend)
    elsewhere = tasks.answer.using(backend="immediate")
    assert isinstance(elsewhere.get_backend(), ImmediateBackend)


@pytest.mark.parametrize(
    ("alias", "why"), [("unknown", "unknown"), ("missing", "no.such.Backend")]
)
def test_a_backend_that_is_not_there(alias, why):
    with pytest.raises(InvalidTaskBackend, match=why):
        tasks.answer.using(backend=alias)


def test_no_backends(settings):
    settings.TASKS = {}
    with pytest.raises(InvalidTaskBackend):
        tasks.answer.enqueue()


def test_nothing_is_wrong_with_it():
    assert list(default_task_backend.check()) == []


# --- Making tasks


@pytest.mark.parametrize("one", [tasks.take_all, tasks.take_all_soon, tasks.answer])
def test_the_decorator_makes_tasks_of_ours(one):
    """With and without parentheses, of plain and `async def` functions."""
    assert isinstance(one, LeaseTask) and isinstance(one, Task)


def test_name_and_path():
    assert (tasks.answer.name, tasks.answer_soon.name) == ("answer", "answer_soon")
    for one in (tasks.answer, tasks.answer_soon):
        assert one.module_path == f"tests.django_tasks.{one.name}"
        assert import_string(one.module_path) is one


def test_functions_that_are_no_tasks():
    """Of C, of a class, within another."""

    def inner():
        pass

    for function in (len, datetime.now, inner, tasks.SETTINGS.get):
        with pytest.raises(InvalidTask, match="module level"):
            task()(function)


def test_the_context_needs_its_parameter():
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(tasks.answer.func)


@pytest.mark.skipif(django.VERSION < (6, 1), reason="new in Django 6.1")
def test_run_after_is_not_for_the_decorator():
    with pytest.raises(TypeError, match="run_after"):
        task(run_after=timezone.now())(tasks.answer.func)


def test_async_tasks_where_they_are_not_supported(monkeypatch):
    monkeypatch.setattr(LeaseQueueBackend, "supports_async_task", False)
    with pytest.raises(InvalidTask, match="async"):
        default_task_backend.validate_task(tasks.answer_soon)


def test_priorities_where_they_are_not_supported(monkeypatch):
    monkeypatch.setattr(LeaseQueueBackend, "supports_priority", False)
    with pytest.raises(InvalidTask, match="priority"):
        tasks.answer.using(priority=10)


# --- using()


def test_using_makes_another_task():
    same = tasks.answer.using()
    assert same == tasks.answer
    assert same is not tasks.answer


@pytest.mark.parametrize(
    ("name", "usual", "value"),
    [("priority", 0, 1), ("queue_name", "default", "mail"), ("run_after", None, "now")],
)
def test_using_changes_one_thing(name, usual, value):
    value = timezone.now() if value == "now" else value
    assert getattr(tasks.answer, name) == usual
    changed = tasks.answer.using(**{name: value})
    assert getattr(changed, name) == value
    assert getattr(tasks.answer, name) == usual


def test_using_of_using():
    now = timezone.now()
    later = tasks.answer.using(run_after=now)
    both = later.using(priority=10)
    assert (both.run_after, both.priority) == (now, 10)
    assert later.priority == 0


def test_run_after_needs_a_time_zone():
    with pytest.raises(InvalidTask, match="aware"):
        tasks.answer.using(run_after=datetime(2049, 1, 1))  # noqa: DTZ001


def test_priorities():
    for wrong in (-101, 101, 3.1):
        with pytest.raises(InvalidTask, match="-100 and 100"):
            tasks.answer.using(priority=wrong)
    for right in (-100, 0, 100):
        assert tasks.answer.using(priority=right).priority == right


def test_queues_are_those_of_the_backend():
    with pytest.raises(InvalidTask, match="video"):
        tasks.answer.using(queue_name="video")
    free = tasks.answer.using(queue_name="video", backend="anything")
    assert free.queue_name == "video"


# --- Calling


def test_call_runs_the_function():
    assert tasks.answer.call() == 42
    assert tasks.answer_soon.call() == 42
    assert awaited(tasks.answer.acall) == 42
    assert awaited(tasks.answer_soon.acall) == 42


# --- Pickle


@pytest.mark.skipif(django.VERSION < (6, 1), reason="new in Django 6.1")
def test_pickled_tasks():
    for one in (tasks.answer, tasks.answer.using(priority=3, dedup="x", meta={"a": 1})):
        again = pickle.loads(pickle.dumps(one))
        assert again == one
        assert (again.dedup, again.meta) == (one.dedup, one.meta)


@pytest.mark.skipif(django.VERSION < (6, 1), reason="new in Django 6.1")
@pytest.mark.parametrize("path", ["no.such.module.task", "builtins.any"])
def test_what_is_no_pickled_task(path):
    with pytest.raises(ValueError, match=path):
        LeaseTask._reconstruct({"func": path})


@pytest.mark.skipif(django.VERSION < (6, 1), reason="new in Django 6.1")
def test_pickled_results():
    result = tasks.answer.enqueue()
    again = pickle.loads(pickle.dumps(result))
    assert again == result
    assert again.enqueued_at == result.enqueued_at


# --- Enqueueing


@pytest.mark.parametrize("one", [tasks.take_all, tasks.take_all_soon])
@pytest.mark.parametrize("way", ["enqueue", "aenqueue"])
def test_enqueue(one, way, django_assert_num_queries):
    """A new result waits, and has what was enqueued; one statement stores it."""
    if way == "enqueue":
        with django_assert_num_queries(1):
            result = one.enqueue(1, two=3)
    else:
        result = awaited(one.aenqueue, 1, two=3)
    assert result.status == "READY"
    assert result.is_finished is False
    assert result.started_at is result.finished_at is result.last_attempted_at is None
    with pytest.raises(ValueError, match="not finished"):
        result.return_value  # noqa: B018
    assert result.task == one
    assert (result.args, result.kwargs) == ([1], {"two": 3})
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    assert result.backend == "default"
    job = Job.objects.get()
    assert (result.id, result.enqueued_at) == (str(job.pk), job.created_at)
    assert (job.task, job.args, job.kwargs) == (one.module_path, [1], {"two": 3})


def test_a_task_with_context_is_enqueued_like_any_other():
    assert tasks.own_id.enqueue().status == "READY"


@pytest.mark.parametrize("way", ["enqueue", "aenqueue"])
def test_arguments_that_are_not_json(way):
    told = r"take_all: args\[1\] is of type datetime: use value.isoformat\(\)"
    with pytest.raises(TypeError, match=told):
        if way == "enqueue":
            tasks.take_all.enqueue(1, timezone.now())
        else:
            awaited(tasks.take_all.aenqueue, 1, timezone.now())
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "value, kind, told",
    [
        ((1, [object()]), TypeError, r"kwargs.one\[1\]\[0\] is of type object: use "),
        (
            {"a": {b"b": {1, 2}}},
            TypeError,
            r"kwargs.one.a.b is of type set: use sorted",
        ),
        (
            {(1, 2): 3},
            TypeError,
            "kwargs.one has a key of type tuple: the keys must be ",
        ),
        (b"\xff", ValueError, "kwargs.one is of type bytes: use text, for example "),
    ],
)
def test_where_in_an_argument_and_what_to_do(value, kind, told):
    """By Django's own classes of errors."""
    with pytest.raises(kind, match=told) as caught:
        tasks.take_all.enqueue(one=value, two=("as", b"Django"))
    assert type(caught.value) is kind
    with pytest.raises(
        TypeError, match=r"Argument 'number' \(args\[0\]\) is of type obj"
    ):
        tasks.tell_context.enqueue(object())


@pytest.mark.parametrize("way", ["enqueue", "aenqueue"])
def test_a_task_is_validated_again_as_it_is_enqueued(settings, way):
    elsewhere = tasks.answer.using(queue_name="mail")
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": ["other"]}}
    with pytest.raises(InvalidTask, match="mail"):
        if way == "enqueue":
            elsewhere.enqueue()
        else:
            awaited(elsewhere.aenqueue)


def test_enqueue_is_logged(caplog):
    caplog.set_level("DEBUG", "django.tasks")
    result = tasks.answer.enqueue()
    [record] = [one for one in caplog.records if one.name == "django.tasks"]
    assert "enqueued" in record.getMessage()
    assert result.id in record.getMessage()


# --- Results


@pytest.mark.parametrize("way", ["get_result", "aget_result"])
def test_results_are_got(way, django_assert_num_queries):
    """By the task and by the backend, in one statement."""
    given = tasks.answer.using(priority=5, queue_name="mail")
    result = given.enqueue()
    for place in (tasks.answer, default_task_backend):
        if way == "get_result":
            with django_assert_num_queries(1):
                found = place.get_result(result.id)
        else:
            found = awaited(place.aget_result, result.id)
        assert found == result
        assert found.task == given


def test_a_time_to_run_after_comes_back():
    later = timezone.now() + timedelta(hours=1)
    result = tasks.answer.using(run_after=later).enqueue()
    assert tasks.answer.get_result(result.id).task.run_after == later
    assert Job.objects.get().run_at == later


@pytest.mark.parametrize("way", ["get_result", "aget_result"])
def test_results_of_another_task(way):
    result = default_task_backend.enqueue(tasks.answer_soon, [], {})
    with pytest.raises(TaskResultMismatch, match="answer_soon"):
        if way == "get_result":
            tasks.answer.get_result(result.id)
        else:
            awaited(tasks.answer.aget_result, result.id)


IMPOSSIBLE = ["123", "0", "-1", "01", " 1", "1_0", "٣", "", "x", "9" * 19, "9" * 40]


@pytest.mark.parametrize("wrong", [*IMPOSSIBLE, 1, None, b"1", 1.5, [], "1\n"])
def test_results_that_do_not_exist(wrong):
    """Missing ones, and whatever no job's id can be."""
    for place in (tasks.answer, default_task_backend):
        with pytest.raises(TaskResultDoesNotExist):
            place.get_result(wrong)
    with pytest.raises(TaskResultDoesNotExist):
        awaited(tasks.answer.aget_result, wrong)


def test_results_that_were_removed():
    result = tasks.answer.enqueue()
    assert default_task_backend.get_result(result.id) == result
    Job.objects.all().delete()
    for again in (lambda: tasks.answer.get_result(result.id), result.refresh):
        with pytest.raises(TaskResultDoesNotExist, match=result.id):
            again()


@pytest.mark.parametrize("way", ["refresh", "arefresh"])
def test_refresh_of_what_has_not_changed(way):
    result = tasks.answer.enqueue()
    before = dataclasses.asdict(result)
    result.refresh() if way == "refresh" else awaited(result.arefresh)
    assert dataclasses.asdict(result) == before


# --- Errors


def test_errors_whose_class_is_none():
    nothing = TaskError(exception_class_path="subprocess.run", traceback="")
    with pytest.raises(ValueError, match=r"subprocess\.run"):
        nothing.exception_class  # noqa: B018
    gone = TaskError(exception_class_path="no.such.Error", traceback="")
    with pytest.raises(ImportError):
        gone.exception_class  # noqa: B018
