"""The decorator, and the doors on a task that need no database."""

import asyncio
from datetime import UTC, datetime
from unittest import mock

import pytest

from django_leasequeue import Dedup, JobSpec, Task, registry, task
from tests.road import toy
from tests.tasks import add


@pytest.fixture(autouse=True)
def own_tasks():
    """What a test registers is forgotten after it."""
    with mock.patch.dict(registry._tasks):
        yield


def test_call_runs_the_function():
    """A task called is the plain function, here and now."""
    assert add(1, 2) == add(1, b=2) == 3


def test_bare_decorator():
    """@task takes every default, and the dotted path for a name."""

    @task
    def send():
        pass

    assert isinstance(send, Task)
    assert send.name == f"{__name__}.test_bare_decorator.<locals>.send"
    assert registry.get(send.name) is send.options
    made = send.options
    assert (made.queue, made.priority, made.max_attempts) == ("default", 0, None)
    assert not made.atomic
    assert not made.takes_context


def test_decorator_with_options():
    """@task(...) sets what is given."""

    @task(name="shop.send", queue="mail", priority=5, max_attempts=3, aliases=("old",))
    def send():
        pass

    made = send.options
    assert (made.name, made.queue, made.priority) == ("shop.send", "mail", 5)
    assert registry.get("old") is made


def test_unknown_option():
    """A misspelt option is an error, not a default in silence."""
    with pytest.raises(TypeError, match="max_tries"):
        task(max_tries=3)(lambda: None)


def test_wrong_options():
    with pytest.raises(TypeError, match=r"by name, such as @task\(queue='mail'\)"):
        task("mail")
    with pytest.raises(
        TypeError, match=r"'c' must be .* Concurrency\('key', limit=3\)"
    ):
        task(concurrency=3, name="c")(lambda: None)


def test_looks_like_its_function():
    """Name, module, docstring and signature are the function's, for help() and tools."""

    @task
    def send(order_id):
        """Send it."""

    assert send.__name__ == "send"
    assert send.__qualname__.endswith("<locals>.send")
    assert send.__module__ == __name__
    assert send.__doc__ == "Send it."
    assert send.__wrapped__(7) is None
    assert repr(send) == f"<Task {send.name}>"


def test_async_function():
    """Calling an async task gives its coroutine."""

    async def double(number):
        return 2 * number

    with toy(double) as made:
        assert made.options.is_async
        assert asyncio.run(made(4)) == 8


def test_spec():
    """A spec holds the arguments as they were given."""
    spec = add.spec(1, b=2)
    assert isinstance(spec, JobSpec)
    assert (spec.task, spec.args, spec.kwargs) == (add, (1,), {"b": 2})


def test_spec_with_options():
    """using() puts its options into the spec."""
    dedup = Dedup("k", ttl=60)
    spec = add.using(delay=60, dedup=dedup, queue="mail").spec(1, 2)
    assert (spec.delay, spec.dedup, spec.queue) == (60, dedup, "mail")
    assert (spec.priority, spec.run_at) == (None, None)


@pytest.mark.parametrize("option", ["tries", "args", "kwargs", "task"])
def test_using_refuses_unknown_options(option):
    """A misspelt option is told at once, and arguments go into the call."""
    with pytest.raises(TypeError, match=f"no dispatch option {option}"):
        add.using(**{option: 1})


def test_a_spec_has_no_database():
    """dispatch_many decides for all of its specs, so one with a database of its own is refused."""
    with pytest.raises(TypeError, match=r"Job\.objects\.using"):
        add.using(database="other").spec(1, 2)


def test_using_adds_to_what_a_door_has():
    """The newer option counts, and a door is not changed by those made from it."""
    mail = add.using(queue="mail", priority=5, meta={"a": 1})
    urgent = mail.using(priority=50, delay=3)
    spec = urgent.using(max_attempts=2).spec(1, 2)
    assert (spec.queue, spec.priority, spec.meta) == ("mail", 50, {"a": 1})
    assert (spec.delay, spec.max_attempts) == (3, 2)
    assert (mail.spec(1, 2).priority, mail.spec(1, 2).delay) == (5, None)
    with pytest.raises(TypeError, match="no dispatch option dely"):
        mail.using(dely=3)


def test_of_a_delay_and_a_time_the_newer_counts():
    """Both at once are refused by a dispatch."""
    at = datetime(2026, 7, 1, tzinfo=UTC)
    spec = add.using(delay=3, queue="mail").using(run_at=at).spec(1, 2)
    assert (spec.delay, spec.run_at, spec.queue) == (None, at, "mail")
    spec = add.using(run_at=at).using(delay=3).spec(1, 2)
    assert (spec.delay, spec.run_at) == (3, None)


def test_a_door_keeps_its_database():
    """So that a spec made from it is refused still."""
    with pytest.raises(TypeError, match=r"Job\.objects\.using"):
        add.using(database="other").using(queue="mail").spec(1, 2)


def test_using_leaves_the_task_alone():
    """A door's options are its own."""
    add.using(queue="mail")
    assert add.spec(1, 2).queue is None


def test_a_misspelt_option_is_told_with_the_one_that_was_meant():
    with pytest.raises(TypeError, match=r"@task has no option takes. There are ali"):
        task(takes=3)
    with pytest.raises(TypeError, match=r"no option max_atempts. Did you mean"):
        task(max_atempts=3)
    with pytest.raises(
        TypeError, match=r"no dispatch option dely. Did you mean 'delay'"
    ):
        add.using(dely=3)


def test_an_option_of_other_queues_is_told_by_its_name_here():
    """By the spelling, `max_retries` would be `max_recoveries`, which retries nothing."""
    with pytest.raises(TypeError, match=r"Did you mean 'max_attempts'\? It counts the"):
        task(max_retries=3)
    with pytest.raises(TypeError, match=r"Did you mean 'takes_context'\?$"):
        task(bind=True)
    with pytest.raises(TypeError, match=r"Did you mean 'delay'\?$"):
        add.using(countdown=3)
    with pytest.raises(TypeError, match=r"no option countdown. There are ali"):
        task(countdown=3)


def test_what_other_queues_call_a_dispatch_is_told():
    with pytest.raises(AttributeError, match=r"no attribute 'delay'. Its dispatch\(\)"):
        add.delay(1, 2)
    with pytest.raises(AttributeError, match=r"'apply_async'. using\(delay=60"):
        add.apply_async((1, 2))
    assert not hasattr(add, "anything")
