"""What a single option of a task or of a dispatch may be, and the form in which it is kept."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django_leasequeue.backoff import problem_with
from django_leasequeue.durations import Duration, seconds
from django_leasequeue.recurrence import Recurrence

# Django's own bounds for a task's priority (django.tasks.base).
LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100
# What becomes of a run that took longer than its timeout: a failed attempt like any other,
# or the end of the job.
ON_TIMEOUT = ("retry", "fail")
# The largest that a PositiveIntegerField holds on every database.
_LARGEST_COUNT = 2_147_483_647


def several(given: Any) -> tuple[Any, ...]:
    """Return what is given as a list, or as one alone, as a tuple, which isinstance() wants."""
    return (given,) if isinstance(given, str | type) else tuple(given)


def check_priority(value: int) -> int:
    """Return a priority that is a whole number within Django's bounds, or raise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"priority must be an int, not {type(value).__name__}.")
    if not LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY:
        raise ValueError(
            f"priority must lie between {LOWEST_PRIORITY} and {HIGHEST_PRIORITY}, larger "
            f"first; {value} does not."
        )
    return value


def check_timeout(value: Duration | None) -> float | None:
    """Return None or a timeout as seconds, or raise."""
    if value is None:
        return None
    timeout = seconds(value, what="timeout")
    if timeout == 0:
        raise ValueError("timeout must be more than 0 seconds; None is no limit.")
    return timeout


def check_count(what: str, value: int | None, least: int) -> None:
    """Raise TypeError or ValueError unless it is None or a whole number, `least` to 2**31 - 1."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}.")
    if value < least:
        raise ValueError(f"{what} must be at least {least}, not {value}.")
    if value > _LARGEST_COUNT:
        raise ValueError(f"{what} must be at most {_LARGEST_COUNT:,}.")


def check_on_timeout(value: str) -> None:
    """Raise ValueError unless it says what becomes of a run that took too long."""
    if value not in ON_TIMEOUT:
        raise ValueError(f"on_timeout must be 'retry' or 'fail', not {value!r}.")


def check_backoff(task: str, backoff: Callable[[int], Any] | None) -> None:
    """Raise TypeError for what can't tell how long a task waits between its runs."""
    problem = None if backoff is None else problem_with(backoff)
    if problem is not None:
        raise TypeError(f"The backoff of {task!r} {problem}.")


def check_exceptions(option: str, kinds: Sequence[Any]) -> None:
    """Raise TypeError unless all are classes of exceptions."""
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"{option} takes exception classes, not {kind!r}.")


def as_schedules(
    task: str,
    given: Any,
    bind: Callable[[Sequence[Any], Mapping[str, Any]], None],
) -> tuple[Recurrence, ...]:
    """Return the schedules of a task, given as None, one or several, each with a name.

    `bind` raises TypeError for arguments that don't fit the task. Raises TypeError or
    ValueError, naming task or schedule.
    """
    listed = () if given is None else given
    if isinstance(listed, Recurrence):
        listed = (listed,)
    if not isinstance(listed, list | tuple) or not all(
        isinstance(one, Recurrence) for one in listed
    ):
        raise TypeError(
            f"The schedule of {task!r} is made by cron(...) or every(...), or is a "
            f"list of such; {given!r} is neither."
        )
    found = {one.name or task: one.called(task) for one in listed}
    if len(found) < len(listed):
        raise ValueError(f"Two schedules of {task!r} have one name. Give each a name=.")
    for one in found.values():
        try:
            bind(one.args, one.kwargs)
        except TypeError as error:
            raise TypeError(f"Schedule {one.name!r}: {error}") from None
    return tuple(found.values())
