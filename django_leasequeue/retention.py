"""How long finished jobs are kept: what a setting or a task says of it, checked and by status."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from django.db.models import Q

from django_leasequeue import db
from django_leasequeue.durations import seconds
from django_leasequeue.states import FINAL, Status

_LIMITS = ("age", "count")
# Integer columns end here on every database.
_MOST = 2**31 - 1


class UnknownKey(ValueError):
    """Raised for a key that neither a limit nor a status has."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is kept of the jobs of one status; a job has to be within both limits.

    `age`: seconds since a job finished, 0 for none at all, None for ever. `count`: so many
    jobs of each task in a queue, the newest; None for any number.
    """

    age: float | None = None
    count: int | None = None

    @property
    def removes_at_once(self) -> bool:
        """Whether no finished job is kept."""
        return self.age == 0


Rules = dict[Status, Rule]


def no_window_lasts() -> Q:
    """Return the condition that no dedup window keeps a job's row."""
    # One that has given its id away holds nothing, whatever its window was.
    return (
        Q(dedup_id__isnull=True)
        | Q(dedup_until__isnull=True)
        | Q(dedup_until__lte=db.DatabaseNow())
    )


def read(what: str, value: Any) -> Rules:
    """Return the rule of each status that `value` says something about.

    `value`: an age in seconds or a timedelta, None, or {"age": …, "count": …}, for every
    status alike; or a dict of such values by status. `what` names it in messages. Raises
    TypeError, ValueError, or UnknownKey, which is one.
    """
    if not isinstance(value, Mapping) or value.keys() & set(_LIMITS):
        rule = _rule(what, value)
        return dict.fromkeys(sorted(FINAL), rule)
    known = sorted(FINAL)
    _check_keys(what, value, [*known, *_LIMITS])
    return {
        status: _rule(f"{what}[{status.value!r}]", value[status])
        for status in known
        if status in value
    }


def _rule(what: str, value: Any) -> Rule:
    if isinstance(value, Rule):
        return value
    if not isinstance(value, Mapping):
        return Rule(_age(what, value))
    _check_keys(what, value, _LIMITS)
    age, count = value.get("age"), value.get("count")
    return Rule(_age(f"{what}['age']", age), _count(f"{what}['count']", count))


def _age(what: str, value: Any) -> float | None:
    return None if value is None else seconds(value, what=what)


def _count(what: str, value: Any) -> int | None:
    if value is None:
        return None
    # True would pass for 1; it is a mistake.
    if type(value) is not int:
        kind = type(value).__name__
        raise TypeError(f"{what} must be a whole number or None, not {kind}.")
    if not 1 <= value <= _MOST:
        raise ValueError(
            f"{what} must be at least 1 and at most {_MOST:,}, not {value}; an age of 0 "
            "keeps none."
        )
    return value


def _check_keys(what: str, value: Mapping[Any, Any], known: Any) -> None:
    for key in value:
        if key not in known:
            close = get_close_matches(str(key).lower(), known, n=1)
            names = ", ".join(repr(str(name)) for name in known)
            hint = f"Did you mean {str(close[0])!r}?" if close else f"It takes {names}."
            raise UnknownKey(f"{what} has the unknown key {str(key)[:60]!r}. {hint}")
