"""Waits between attempts: their bounds, their growth, and what a callable may do."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_leasequeue.backoff import (
    BrokenBackoff,
    Exponential,
    Fixed,
    Linear,
    delay_after,
    problem_with,
)
from django_leasequeue.durations import LONGEST

attempts = st.integers(1, 100_000)
jitters = st.floats(0, 1)
waits = st.floats(0.001, 10_000) | st.timedeltas(
    timedelta(milliseconds=1), timedelta(hours=3)
)


def in_seconds(duration):
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    return duration


@pytest.mark.parametrize("jitter", [0, 0.25, 1])
@pytest.mark.parametrize("factor", [2, 5, 2.5, 10**400])
@pytest.mark.parametrize("attempt", [16, 47, 1_100, 100_000])
def test_case_142_backoff_never_overflows(attempt, factor, jitter):
    """However large the power, the wait is the cap, less its jitter."""
    backoff = Exponential(base=1, factor=factor, max=300, jitter=jitter)
    assert timedelta(seconds=300 * (1 - jitter)) <= delay_after(backoff, attempt)
    assert delay_after(backoff, attempt) <= timedelta(seconds=300)


@pytest.mark.parametrize("attempt", [16, 47, 1_100, 100_000])
def test_case_142_a_callable_without_a_cap_is_cut(attempt):
    """A callable that grows without bound gives a century, not an overflow."""
    wait = delay_after(lambda number: 5**number, attempt)
    assert wait == timedelta(seconds=min(5**attempt, int(LONGEST)))


@given(base=waits, factor=st.floats(1, 1e300), attempt=attempts, jitter=jitters)
def test_exponential_stays_in_its_bounds(base, factor, attempt, jitter):
    """No wait is above max or negative, whatever the numbers."""
    longest = in_seconds(base) * 50
    backoff = Exponential(base, factor, max=longest, jitter=jitter)
    assert timedelta(0) <= delay_after(backoff, attempt) <= timedelta(seconds=longest)


@given(base=waits, step=st.none() | waits, attempt=attempts, jitter=jitters)
def test_linear_stays_in_its_bounds(base, step, attempt, jitter):
    """No wait is above max or negative, whatever the numbers."""
    longest = in_seconds(base) * 50
    backoff = Linear(base, step, max=longest, jitter=jitter)
    assert timedelta(0) <= delay_after(backoff, attempt) <= timedelta(seconds=longest)


@given(delay=waits, attempt=attempts, jitter=jitters)
def test_fixed_stays_in_its_bounds(delay, attempt, jitter):
    """Jitter only shortens, by its share at most."""
    longest = timedelta(seconds=in_seconds(delay))
    wait = delay_after(Fixed(delay, jitter), attempt)
    shortest = longest * (1 - jitter) - timedelta(microseconds=1)
    assert shortest <= wait <= longest


@given(base=waits, factor=st.floats(1, 10), attempt=st.integers(1, 1_000))
def test_exponential_never_shrinks(base, factor, attempt):
    """Without jitter, a later attempt waits as long or longer."""
    backoff = Exponential(base, factor, max=20_000, jitter=0)
    assert delay_after(backoff, attempt) <= delay_after(backoff, attempt + 1)


def test_exponential_doubles_up_to_its_cap():
    """The first wait is base, each next one factor times as long, the last ones max."""
    backoff = Exponential(base=timedelta(seconds=1), factor=2, max=5, jitter=0)
    waits = [delay_after(backoff, attempt).total_seconds() for attempt in (1, 2, 3, 4)]
    assert waits == [1, 2, 4, 5]


def test_linear_grows_by_its_step():
    """The first wait is base, each next one a step longer; a step is base long."""
    backoff = Linear(10, timedelta(seconds=5), max=22, jitter=0)
    waits = [delay_after(backoff, attempt).total_seconds() for attempt in (1, 2, 3, 4)]
    assert waits == [10, 15, 20, 22]
    assert delay_after(Linear(10, jitter=0), 3) == timedelta(seconds=30)


def test_fixed_has_no_jitter_unless_asked():
    """A fixed wait is exact by default."""
    assert delay_after(Fixed(7), 1) == delay_after(Fixed(7), 9) == timedelta(seconds=7)
    assert delay_after(Fixed(0), 1) == timedelta(0)


def test_jitter_spreads_jobs_at_the_cap():
    """Jobs that have reached max do not all come back at one instant."""
    seen = {delay_after(Exponential(max=100, jitter=0.5), 90) for _ in range(50)}
    assert len(seen) > 10
    assert max(seen) <= timedelta(seconds=100)


@pytest.mark.parametrize("wait", [90, 90.0, timedelta(seconds=90)])
def test_a_callable_may_return_seconds_or_a_timedelta(wait):
    """A callable gets the number of the attempt; its answer is taken as it is."""
    asked = []
    assert delay_after(lambda number: asked.append(number) or wait, 4) == timedelta(
        seconds=90
    )
    assert asked == [4]


@pytest.mark.parametrize("wait", [10**400, 1e300, timedelta.max])
def test_a_callable_with_an_endless_wait_gives_a_century(wait):
    """What no database could store is cut to the longest wait there is."""
    assert delay_after(lambda number: wait, 1) == timedelta(seconds=LONGEST)


@pytest.mark.parametrize(
    "wait",
    [None, "5", True, -1, -0.5, timedelta(seconds=-1), float("nan"), float("inf"), [1]],
)
def test_a_callable_that_returns_rubbish_is_told(wait):
    """The error names the function, the attempt and what is wrong."""

    def strange(attempt):
        return wait

    with pytest.raises(BrokenBackoff, match=r"strange gave no wait after attempt 2: "):
        delay_after(strange, 2)


def test_a_callable_that_raises_is_told():
    """The error keeps the cause and its facts."""

    def strange(attempt):
        return 1 / 0

    with pytest.raises(BrokenBackoff, match="it raised ZeroDivisionError") as caught:
        delay_after(strange, 3)
    assert (caught.value.backoff, caught.value.attempt) == (strange, 3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_async_callable_is_told():
    """A coroutine is no wait, and it is closed so that Python does not warn."""

    class Later:
        async def __call__(self, attempt):
            return 5

    with pytest.raises(BrokenBackoff, match=r"Later gave no wait .* not coroutine"):
        delay_after(Later(), 1)


@pytest.mark.parametrize("attempt", [0, -1])
def test_attempts_are_counted_from_one(attempt):
    """There is no wait after an attempt that never was."""
    with pytest.raises(ValueError, match="counted from 1"):
        delay_after(Fixed(1), attempt)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Exponential(base=-1), ValueError, "base must be at least 0.001"),
        (lambda: Exponential(base=0), ValueError, "base must be at least 0.001"),
        (lambda: Exponential(base=True), TypeError, "base must be seconds"),
        (lambda: Exponential(base="1"), TypeError, "base must be seconds"),
        (lambda: Exponential(factor=0.5), ValueError, "factor must be at least 1"),
        (lambda: Exponential(factor=float("inf")), ValueError, "factor must be"),
        (lambda: Exponential(factor=float("nan")), ValueError, "factor must be"),
        (lambda: Exponential(factor="2"), TypeError, "factor must be a number"),
        (lambda: Exponential(jitter=1.1), ValueError, "at least 0 and at most 1"),
        (lambda: Exponential(jitter=True), TypeError, "jitter must be a number"),
        (lambda: Exponential(base=600), ValueError, "max .300. must not be below base"),
        (lambda: Exponential(max=10**400), ValueError, "max must be at most"),
        (lambda: Linear(10, step=-1), ValueError, "step must be at least 0"),
        (lambda: Linear(10, max=float("inf")), ValueError, "max must be a finite"),
        (lambda: Fixed(timedelta(-1)), ValueError, "delay must be at least 0"),
        (lambda: Fixed(1, jitter=-1), ValueError, "jitter must be at least 0"),
    ],
)
def test_wrong_numbers_are_refused_at_once(make, error, message):
    """A backoff that could not work is refused where it is written."""
    with pytest.raises(error, match=message):
        make()


async def async_backoff(attempt):
    return 1


@pytest.mark.parametrize(
    ("backoff", "why"),
    [
        (Exponential(), None),
        (Linear(1), None),
        (Fixed(1), None),
        (lambda attempt: 1, None),
        (Exponential, "is the class Exponential, not one of its objects: call it"),
        (30, "must be Exponential, Linear, Fixed or a callable, not int"),
        (async_backoff, "must be a plain function, not an async one"),
    ],
)
def test_problem_with_says_what_is_no_backoff(backoff, why):
    """A class, a bare number and an async function are told apart."""
    assert problem_with(backoff) == why
