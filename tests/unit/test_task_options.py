"""A task's options: what can't be, the arguments it takes, its dedup id."""

import re

import pytest

from django_leasequeue import Dedup
from django_leasequeue.task_options import TaskOptions


def options(function=lambda: None, **values):
    return TaskOptions(name="shop.send", func=function, **values)


@pytest.mark.parametrize(
    "values, kind, words",
    [
        ({"queue": ""}, ValueError, "queue must not be empty"),
        ({"queue": "q" * 101}, ValueError, "at most 100"),
        ({"queue": "a\x00"}, ValueError, "NUL"),
        ({"aliases": ("a" * 256,)}, ValueError, "at most 255"),
        ({"priority": 101}, ValueError, "between -100 and 100"),
        ({"priority": -101}, ValueError, "between -100 and 100"),
        ({"priority": 1.0}, TypeError, "priority must be an int, not float"),
        ({"priority": True}, TypeError, "priority must be an int, not bool"),
        ({"max_attempts": 0}, ValueError, "max_attempts must be at least 1, not 0"),
        ({"max_attempts": 2**31}, ValueError, "max_attempts must be at most 2,147"),
        ({"max_attempts": "3"}, TypeError, "max_attempts must be an int, not str"),
        ({"max_recoveries": -1}, ValueError, "max_recoveries must be at least 0"),
        ({"backoff": 5}, TypeError, "must be Exponential, Linear, Fixed or a callable"),
        ({"dedup": ""}, ValueError, "dedup id must not be empty"),
        ({"dedup": 7}, TypeError, "dedup id must be a str"),
        (
            {"retry_on": (ValueError, "x")},
            TypeError,
            "retry_on takes exception classes",
        ),
        ({"discard_on": (int,)}, TypeError, "discard_on takes exception classes"),
    ],
)
def test_116_options_that_can_not_be(values, kind, words):
    """They are refused where the task is defined, not when the first job is dispatched."""
    with pytest.raises(kind, match=words):
        options(**values)


def test_bounds_are_allowed():
    """The ends of each range are inside it."""
    options(priority=100, max_attempts=1, max_recoveries=0)
    options(priority=-100, max_attempts=2**31 - 1, queue="q" * 100)


def test_atomic_is_for_plain_functions():
    """An async task can't run in a transaction, so the two together are refused."""

    async def send():
        pass

    with pytest.raises(TypeError, match="drop atomic=True"):
        options(send, atomic=True)
    assert options(send).is_async


@pytest.mark.parametrize(
    "args, kwargs",
    [([1], {"b": 2}), ([1, 2], {}), ([], {"a": 1, "b": 2}), ([1, 2], {"c": 3})],
)
def test_bind(args, kwargs):
    """Arguments that the function takes are accepted in every form."""
    options(lambda a, b, *, c=0: None).bind(args, kwargs)


@pytest.mark.parametrize(
    "args, kwargs, words",
    [
        ([1], {}, "missing a required argument: 'b'"),
        ([1, 2, 3], {}, "too many positional arguments"),
        ([1, 2], {"d": 4}, "unexpected keyword argument 'd'"),
        ([1, 2], {"a": 1}, "multiple values for argument 'a'"),
        ([1, 2], {5: 1}, "must be strings"),
    ],
)
def test_bind_names_the_argument(args, kwargs, words):
    """What does not fit is told with the task, its signature and the argument."""
    with pytest.raises(TypeError, match=rf"fit shop\.send\(a, b, \*, c=0\): .*{words}"):
        options(lambda a, b, *, c=0: None).bind(args, kwargs)


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda a, b=None: None,
        lambda a, /, b=None, *more: None,
        lambda a=None, **named: None,
        lambda *all: None,
        lambda a, *, b: None,
        lambda a, *, b=None: None,
    ],
)
@pytest.mark.parametrize("count", range(4))
def test_bind_by_position_alone(function, count):
    """The shorter way that most dispatches take refuses and accepts the same."""
    made = options(function)
    try:
        made.signature.bind(*range(count))
    except TypeError as error:
        with pytest.raises(TypeError, match=re.escape(str(error))):
            made.bind(list(range(count)), {})
    else:
        made.bind(list(range(count)), {})


def test_context_is_not_an_argument():
    """With takes_context the first parameter is the worker's to fill."""
    made = options(lambda context, a: None, takes_context=True)
    made.bind([1], {})
    assert made.positional == ["a"]
    with pytest.raises(TypeError, match="too many"):
        made.bind(["context", 1], {})


def test_context_needs_a_parameter():
    """A function without parameters can't take the context."""
    with pytest.raises(TypeError, match="no parameter for it"):
        options(lambda: None, takes_context=True)


@pytest.mark.parametrize(
    "dedup, expected",
    [
        (None, None),
        ("nightly", Dedup("nightly")),
        (Dedup("nightly", ttl=60), Dedup("nightly", ttl=60)),
        (lambda a: f"order:{a}", Dedup("order:7")),
        (lambda a: Dedup(f"order:{a}", ttl=60), Dedup("order:7", ttl=60)),
        (lambda a: None, None),
    ],
)
def test_dedup_for(dedup, expected):
    """The task's own id is a text, a Dedup, or a callable of the arguments, which may pass."""
    assert options(lambda a: None, dedup=dedup).dedup_for([7], {}) == expected


@pytest.mark.parametrize("given", [OSError, [OSError], (OSError,)])
def test_one_class_or_a_list_does_where_several_are_taken(given):
    made = options(retry_on=given, discard_on=given)
    assert made.retry_on == made.discard_on == (OSError,)
