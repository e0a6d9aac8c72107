"""The backend's own: options of the queue, what workers know, and Job.objects.dispatch."""

import sys
from datetime import datetime, timedelta
from types import ModuleType
from unittest import mock

import django
import pytest

pytest.importorskip("django.tasks", reason="came with Django 6.0")

from django.db import connections
from django.tasks import default_task_backend, task, task_backends
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist

from django_leasequeue import Dedup, JobSpec, discovery, every, registry
from django_leasequeue.backend import LeaseTask
from django_leasequeue.exceptions import DedupConflict, UnknownTask
from django_leasequeue.models import Job
from tests import django_tasks as tasks
from tests.factories import JobFactory
from tests.road import toy

OURS = "django_leasequeue.backend.LeaseQueueBackend"
# Django 6.0 takes no options in the decorator.
IN_DECORATOR = pytest.mark.skipif(django.VERSION < (6, 1), reason="new in Django 6.1")


@pytest.fixture(autouse=True)
def configured(settings):
    settings.LEASEQUEUE = tasks.SETTINGS
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": []}}
    with mock.patch.dict(registry._tasks):
        yield


@pytest.fixture
def module():
    """A module that workers would find, with a function in it."""
    module = ModuleType("tests.tasks.django_made")
    exec("def work(*args, **kwargs):\n    return 1\n", vars(module))
    with mock.patch.dict(sys.modules, {module.__name__: module}):
        yield module


@pytest.fixture
def work(module):
    return module.work


NAME = "tests.tasks.django_made.work"


# --- Options


@IN_DECORATOR
def test_options_in_the_decorator(work):
    made = task(
        max_attempts=5,
        timeout=timedelta(seconds=30),
        on_timeout="fail",
        retry_on=[OSError],
        dedup=lambda number: f"work:{number}",
        group="g",
        meta={"a": 1},
        aliases=["work.before"],
        redact=["token"],
    )(work)
    known = registry.get(NAME)
    assert registry.get("work.before") is known
    assert (known.max_attempts, known.timeout, known.on_timeout) == (5, 30, "fail")
    assert known.retry_on == (OSError,)
    assert registry.redaction(NAME).shown({"kwargs": {"token": 1}}) == {
        "kwargs": {"token": "[hidden]"}
    }
    result = made.enqueue(7)
    job = Job.objects.get()
    assert (job.dedup_id, job.max_attempts) == ("work:7", 5)
    assert (job.group, job.meta) == ("g", {"a": 1})
    assert made.enqueue(7).id == result.id


@IN_DECORATOR
def test_a_schedule_in_the_decorator(work):
    task(schedule=every(minutes=10))(work)
    assert [options.name for options, _ in registry.declared().values()] == [NAME]


@IN_DECORATOR
@pytest.mark.parametrize(
    "option",
    [
        {"max_attempts": 0},
        {"timeout": 0},
        {"on_timeout": "explode"},
        {"retry_on": "OSError"},
        {"backoff": 3},
        {"on_success": 3},
        {"redact": 3},
    ],
    ids=str,
)
def test_options_that_cant_be(work, option):
    with pytest.raises(InvalidTask):
        task(**option)(work)
    with pytest.raises(UnknownTask):
        registry.get(NAME)


@IN_DECORATOR
def test_options_that_do_not_exist(work):
    with pytest.raises(TypeError, match="max_tries"):
        task(max_tries=3)(work)


@IN_DECORATOR
def test_one_function_has_one_timeout(work):
    """A job's row names its function, so a worker could not tell them apart."""
    made = task(timeout=5)(work)
    with pytest.raises(InvalidTask, match="another timeout"):
        task(timeout=500)(work)
    assert task(timeout=5, priority=3)(work).func is made.func


def test_options_for_all_tasks_of_a_backend(settings, work):
    """The only way on Django 6.0."""
    options = {"max_attempts": 4, "timeout": 60, "discard_on": [KeyError]}
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": options}}
    made = task(work)
    known = registry.get(NAME)
    assert (known.timeout, known.discard_on) == (60, (KeyError,))
    made.enqueue()
    assert Job.objects.get().max_attempts == 4
    made.using(max_attempts=2).enqueue()
    assert Job.objects.latest("pk").max_attempts == 2


def test_attempts_of_the_backend_that_using_names(settings, work):
    settings.TASKS = {
        "default": {"BACKEND": OURS},
        "often": {"BACKEND": OURS, "OPTIONS": {"max_attempts": 9}},
    }
    made = task(work)
    made.enqueue()
    made.using(backend="often").enqueue()
    assert [job.max_attempts for job in Job.objects.order_by("pk")] == [1, 9]


def test_using_takes_what_a_job_has():
    first = tasks.answer.using(group="before").enqueue()
    made = tasks.answer.using(group="g", meta={"a": 1}, max_attempts=3, priority=5)
    made = made.using(after_group="before")
    assert isinstance(made, LeaseTask)
    assert tasks.answer.group is None
    made.enqueue()
    job = Job.objects.exclude(pk=first.id).get()
    assert job.blocked
    assert (job.group, job.meta, job.max_attempts, job.priority) == (
        "g",
        {"a": 1},
        3,
        5,
    )
    with pytest.raises(TypeError, match="timeout"):
        tasks.answer.using(timeout=3)


# --- Dedup ids


def test_a_dedup_id_that_is_held():
    """The result is that of the job which holds it; nothing is told to have been enqueued."""
    once = tasks.give_back.using(dedup="x", priority=4)
    first = once.enqueue(1)
    with mock.patch("django.tasks.signals.task_enqueued.send") as send:
        again = once.using(priority=9).enqueue(2)
    assert not send.called
    assert again == first
    assert (again.args, again.task.priority) == ([1], 4)
    assert Job.objects.get().suppressed == 1


def test_rules_of_a_dedup_id():
    changed = tasks.give_back.using(dedup=Dedup("x", replace=True))
    first = changed.enqueue(1)
    assert changed.enqueue(2).id == first.id
    first.refresh()
    assert tasks.give_back.get_result(first.id).args == [2]
    with pytest.raises(DedupConflict):
        tasks.answer.using(dedup="x").enqueue()


# --- What workers know


def test_a_module_that_workers_do_not_import(settings):
    settings.LEASEQUEUE = {}
    with pytest.raises(InvalidTask, match="TASK_MODULES"):
        tasks.answer.enqueue()
    assert not Job.objects.exists()


def test_arguments_that_do_not_fit():
    with pytest.raises(TypeError, match=r"answer\(\)"):
        tasks.answer.enqueue(1)
    with pytest.raises(TypeError, match="missing"):
        tasks.tell_context.enqueue()


def test_tasks_of_other_backends_are_known_too(settings, module):
    """Jobs of them come from processes that have called using(backend=...)."""
    immediate = "django.tasks.backends.immediate.ImmediateBackend"
    settings.TASKS = {
        "default": {"BACKEND": immediate},
        "missing": {"BACKEND": "no.such.Backend"},
        "queue": {"BACKEND": OURS, "OPTIONS": {"timeout": 9}},
    }
    module.made = task(module.work)
    assert not isinstance(module.made, LeaseTask)
    with pytest.raises(UnknownTask):
        registry.get(NAME)
    discovery.import_tasks(module.__name__)
    assert registry.get(NAME).timeout == 9
    queued = module.made.using(backend="queue")
    result = queued.enqueue(5)
    assert Job.objects.get().task == NAME
    assert task_backends["queue"].get_result(result.id) == result
    # Nobody could run them without a backend of ours.
    registry._tasks.pop(NAME)
    settings.TASKS = {"default": {"BACKEND": immediate}}
    discovery.import_tasks(module.__name__)
    with pytest.raises(UnknownTask):
        registry.get(NAME)


def test_a_module_that_was_reloaded(module):
    task(module.work)
    exec("def work(new): pass", vars(module))
    task(module.work)
    assert registry.get(NAME).func is module.work


@pytest.mark.parametrize("name", ["subprocess.check_output", "no.such.task"])
def test_a_row_names_registered_tasks_only(name):
    """Nothing is imported or called because a row says so."""
    job = JobFactory(task=name)
    with pytest.raises(TaskResultDoesNotExist, match=name):
        default_task_backend.get_result(str(job.pk))


# --- Job.objects.dispatch


def test_dispatch_of_such_a_task():
    job, outcome = Job.objects.dispatch(tasks.send_mail, ["ann"], delay=60)
    assert outcome == "added"
    assert (job.queue, job.priority) == ("mail", 7)
    assert job.task == "tests.django_tasks.send_mail"
    result = tasks.send_mail.get_result(str(job.pk))
    assert result.args == ["ann"]
    assert result.task.run_after > result.enqueued_at


def test_dispatch_of_what_using_returns():
    made = tasks.answer.using(priority=3, queue_name="x", max_attempts=2, dedup="d")
    [(job, _), (other, _)] = Job.objects.dispatch_many(
        [JobSpec(made), JobSpec("tests.django_tasks.answer")]
    )
    assert (job.priority, job.queue, job.max_attempts, job.dedup_id) == (3, "x", 2, "d")
    assert (other.priority, other.queue) == (0, "default")
    with pytest.raises(TypeError, match="run_at"):
        Job.objects.dispatch(tasks.answer.using(run_after=other.created_at))


def test_results_of_the_packages_own_tasks():
    """Whatever Django would not allow of the function: the job is there."""

    def inner():
        pass

    with toy(inner, name="toy.inner", takes_context=False) as made:
        pk = made.using(queue="anything").dispatch().job.pk
        result = default_task_backend.get_result(str(pk))
        assert result.task.func is inner
        assert result.task.queue_name == "anything"


def test_the_context_of_the_packages_own_tasks_has_no_result():
    from tests.claims import claimed, context_of

    context = context_of(claimed(id=7))
    assert not hasattr(context, "task_result")
    assert len({context, context_of(claimed(id=7))}) == 2


# --- Elsewhere


@pytest.mark.django_db(databases=["default", "other"])
def test_the_database_that_the_options_name(settings):
    options = {"database": "other"}
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": options}}
    result = tasks.answer.enqueue()
    assert Job.objects.using("other").get().pk == int(result.id)
    assert not Job.objects.using("default").exists()
    assert tasks.answer.get_result(result.id) == result


@pytest.mark.skipif(
    connections["default"].vendor != "sqlite", reason="the same on every database"
)
def test_naive_times(settings):
    """Where USE_TZ is off, times are those of TIME_ZONE, as of Django's own fields."""
    settings.USE_TZ = False
    later = datetime(2049, 7, 1, 12)  # noqa: DTZ001
    result = tasks.answer.using(run_after=later).enqueue()
    assert result.enqueued_at.tzinfo is None
    found = tasks.answer.get_result(result.id)
    assert (found.task.run_after, found) == (later, result)
