"""Callbacks of a task: what may be one, told when the task is made."""

import functools

import pytest

from django_leasequeue.hooks import CALLBACKS, check_callback, load
from tests.road import toy


class Callable:
    """An object that can be called with an EndedRun."""

    def __call__(self, ended):
        """Do nothing."""


async def tell(ended):
    """An async callback."""


@pytest.mark.parametrize(
    "callback",
    [
        None,
        lambda ended: None,
        lambda *all: None,
        lambda ended, more=1: None,
        functools.partial(lambda more, ended: None, 1),
        Callable(),
        tell,
        print,
        "shop.hooks.tell",
    ],
)
def test_what_may_be_a_callback(callback):
    check_callback("on_success", callback)


@pytest.mark.parametrize(
    ("callback", "why"),
    [
        (3, "must be a function or its dotted path, not int"),
        ([tell], "not list"),
        ("tell", "such as 'shop.hooks.tell'; 'tell' is neither"),
        ("shop.hooks:tell", "is neither"),
        ("", "is neither"),
        (lambda: None, "is called with one argument, the EndedRun"),
        (lambda ended, more: None, "missing a required argument: 'more'"),
        (lambda *, ended: None, "is called with one argument"),
    ],
)
@pytest.mark.parametrize("option", CALLBACKS)
def test_what_may_not_is_refused_at_the_decorator(option, callback, why):
    with (
        pytest.raises(TypeError, match=f"^{option} .*{why}"),
        toy(lambda: None, **{option: callback}),
    ):
        raise AssertionError("The task was made.")


def test_a_path_is_looked_up_when_it_is_needed():
    with toy(lambda: None, on_failure="surely_not_installed.tell"):
        pass
    assert load(f"{__name__}.tell") is tell
    with pytest.raises(TypeError, match="is a tuple, not a function"):
        load("django_leasequeue.hooks.CALLBACKS")
