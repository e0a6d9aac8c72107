"""errors: the list on a job's row."""

from datetime import UTC, datetime

import pytest

from django_leasequeue.errors import (
    describe_death,
    errors_with,
    repeatable,
    times_in_a_row,
)


def entry(kind="builtins.ValueError", **more):
    return {"exception_class": kind, "message": "as asked", "attempt": 1, **more}


def test_the_newest_comes_last():
    assert errors_with([entry("a")], entry("b"), 10) == [entry("a"), entry("b")]


def test_the_oldest_fall_out():
    errors = []
    for number in range(5):
        errors = errors_with(errors, entry(str(number)), 3)
    assert [error["exception_class"] for error in errors] == ["2", "3", "4"]


def test_the_given_list_is_not_changed():
    errors = [entry("a")]
    errors_with(errors, entry("b"), 10)
    assert errors == [entry("a")]


def test_equal_errors_are_kept_apart():
    assert len(errors_with([entry()], entry(), 10)) == 2


@pytest.mark.parametrize("cap", [1, 10])
def test_repeatable_ones_become_one_with_their_number(cap):
    errors = []
    for at in ("first", "second", "third"):
        new = repeatable(entry("unknown", at=at), round=1)
        errors = errors_with(errors, new, cap)
    assert errors == [entry("unknown", at="third", round=1, times=3)]
    assert times_in_a_row(errors, new) == 3


def test_another_error_between_them_starts_anew():
    unknown = repeatable(entry("unknown"), round=1)
    errors = errors_with([unknown], entry(), 10)
    assert times_in_a_row(errors, unknown) == 0
    assert [e.get("times") for e in errors_with(errors, unknown, 10)] == [1, None, 1]


def test_another_round_starts_anew():
    errors = [repeatable(entry("unknown"), round=1)]
    new = repeatable(entry("unknown"), round=2)
    assert times_in_a_row(errors, new) == 0
    assert len(errors_with(errors, new, 10)) == 2


def test_an_ordinary_error_does_not_continue_a_repeatable_one():
    assert len(errors_with([repeatable(entry(), 1)], entry(), 10)) == 2


@pytest.mark.parametrize(
    "broken", [None, {}, "text", [None], ["text"], [{"times": "x"}]], ids=repr
)
def test_a_list_broken_by_hand_takes_the_newest(broken):
    new = repeatable(entry(), 1)
    assert errors_with(broken, new, 10)[-1] == new
    assert times_in_a_row(broken, new) == 0


def test_a_death_is_described():
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert describe_death("killed by SIGKILL", attempt=2, worker="host:1", at=at) == {
        "exception_class": "django_leasequeue.exceptions.WorkersLost",
        "message": "The worker was lost: killed by SIGKILL.",
        "traceback": "",
        "attempt": 2,
        "at": "2026-01-02T03:04:05+00:00",
        "worker": "host:1",
        "death": "killed by SIGKILL",
    }
