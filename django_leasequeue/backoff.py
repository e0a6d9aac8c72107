"""How long a job waits before its next attempt."""

import inspect
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django_leasequeue.durations import LONGEST, Duration, seconds
from django_leasequeue.exceptions import LeaseQueueError


@dataclass(frozen=True, slots=True)
class Exponential:
    """Wait `base`, then `factor` times as long after each further attempt, up to `max`.

    `base`, `max`: seconds or a timedelta. `jitter`: the share, 0 to 1, of each wait
    that is left to chance; it only shortens, so no wait is above `max`, and jobs that
    have reached `max` are still spread out.
    """

    base: Duration = 1
    factor: float = 2
    max: Duration = 300
    jitter: float = 0.25

    def __post_init__(self) -> None:
        seconds(self.base, what="base", minimum=0.001)  # no factor makes 0 grow
        _check_range(self.base, self.max)
        _check_number(self.factor, "factor", 1, math.inf)
        _check_number(self.jitter, "jitter", 0, 1)

    def __call__(self, attempt: int) -> float:
        """Return the wait after this attempt (1 is the first) in seconds."""
        base, longest = seconds(self.base, what="base"), seconds(self.max, what="max")
        try:
            wait = base * float(self.factor) ** (attempt - 1)
        except OverflowError:
            wait = longest
        return _shortened(min(wait, longest), self.jitter)


@dataclass(frozen=True, slots=True)
class Linear:
    """Wait `base`, then `step` longer after each further attempt, up to `max`.

    `base`, `step`, `max`: seconds or a timedelta; `step` None is the same as `base`.
    `jitter`: as in Exponential.
    """

    base: Duration
    step: Duration | None = None
    max: Duration = 300
    jitter: float = 0.25

    def __post_init__(self) -> None:
        _check_range(self.base, self.max)
        if self.step is not None:
            seconds(self.step, what="step")
        _check_number(self.jitter, "jitter", 0, 1)

    def __call__(self, attempt: int) -> float:
        """Return the wait after this attempt (1 is the first) in seconds."""
        base, longest = seconds(self.base, what="base"), seconds(self.max, what="max")
        step = base if self.step is None else seconds(self.step, what="step")
        return _shortened(min(base + step * (attempt - 1), longest), self.jitter)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Wait `delay` (seconds or a timedelta) after each attempt; 0 runs again at once.

    `jitter`: as in Exponential, but none unless asked for.
    """

    delay: Duration
    jitter: float = 0

    def __post_init__(self) -> None:
        seconds(self.delay, what="delay")
        _check_number(self.jitter, "jitter", 0, 1)

    def __call__(self, attempt: int) -> float:
        """Return the wait in seconds, the same after each attempt."""
        return _shortened(seconds(self.delay, what="delay"), self.jitter)


# A callable gets the number of the attempt that has failed (1 is the first).
Backoff = Exponential | Linear | Fixed | Callable[[int], Duration]


class BrokenBackoff(LeaseQueueError):
    """A task's backoff raised, or returned something that is no duration."""

    def __init__(self, backoff: Any, attempt: Any, why: str) -> None:
        self.backoff, self.attempt, self.why = backoff, attempt, why
        super().__init__(
            f"The backoff {_name(backoff)} gave no wait after attempt {attempt}: {why}"
        )


def delay_after(backoff: Backoff, attempt: int) -> timedelta:
    """Return how long to wait after this attempt (1 is the first) before the next.

    Never above the backoff's `max`; a callable's wait is cut to `durations.LONGEST`.
    Raise ValueError if `attempt` is below 1, BrokenBackoff if a callable raises or
    returns anything but seconds >= 0 or a timedelta >= 0.
    """
    if attempt < 1:
        raise ValueError(
            f"Attempts are counted from 1, so there is no attempt {attempt}."
        )
    try:
        wait: Any = backoff(attempt)
    except Exception as error:
        raise BrokenBackoff(
            backoff, attempt, f"it raised {type(error).__name__}."
        ) from error
    if inspect.iscoroutine(wait):
        wait.close()  # else Python warns that it was never awaited
    if type(wait) is int:
        wait = min(wait, int(LONGEST))
    elif type(wait) is float and math.isfinite(wait):
        wait = min(wait, LONGEST)
    elif isinstance(wait, timedelta):
        wait = min(wait, timedelta(seconds=LONGEST))
    try:
        given: Any = wait
        return timedelta(seconds=seconds(given, what="the wait"))
    except (TypeError, ValueError) as error:
        raise BrokenBackoff(backoff, attempt, str(error)) from error


def problem_with(backoff: object) -> str | None:
    """Return why this can't serve as a backoff, as a sentence's end; None if it can."""
    if isinstance(backoff, type):
        return f"is the class {backoff.__name__}, not one of its objects: call it"
    if not callable(backoff):
        kind = type(backoff).__name__
        return f"must be Exponential, Linear, Fixed or a callable, not {kind}"
    if inspect.iscoroutinefunction(backoff):
        return "must be a plain function, not an async one"
    return None


def _shortened(wait: float, jitter: float) -> float:
    return wait * (1 - jitter * random.random())


def _check_range(base: Duration, longest: Duration) -> None:
    if seconds(longest, what="max") < seconds(base, what="base"):
        raise ValueError(f"max ({longest}) must not be below base ({base}).")


def _check_number(value: float, what: str, lowest: float, highest: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number, not {type(value).__name__}.")
    if not lowest <= value <= highest or value == math.inf:
        upper = "" if highest == math.inf else f" and at most {highest}"
        raise ValueError(f"{what} must be at least {lowest}{upper}, not {value}.")


def _name(backoff: object) -> str:
    return getattr(backoff, "__qualname__", type(backoff).__qualname__)
