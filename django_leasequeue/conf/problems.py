"""All that is wrong with LEASEQUEUE, for the system checks."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

from django_leasequeue.conf.keys import PER_QUEUE, SETTINGS
from django_leasequeue.conf.kinds import Problem, WrongSetting
from django_leasequeue.conf.lookup import as_dict, given, pair_problem
from django_leasequeue.dedup import check_queue


def problems() -> Iterator[Problem]:
    """Yield what is wrong, in the order in which the project wrote it."""
    try:
        values = given()
    except WrongSetting as error:
        yield error.problem
        return
    for key, value in values.items():
        if key == "QUEUES":
            yield from _queues_problems(value)
        else:
            yield from _value_problems("LEASEQUEUE", key, value, SETTINGS)
    yield from _pair_problems(values.get("QUEUES"))


def _queues_problems(queues: Any) -> Iterator[Problem]:
    try:
        queues = as_dict("LEASEQUEUE['QUEUES']", queues)
    except WrongSetting as error:
        yield error.problem
        return
    for name, values in queues.items():
        where = f"LEASEQUEUE['QUEUES'][{_short(name)}]"
        yield from _name_problems(where, name)
        try:
            values = as_dict(where, values)
        except WrongSetting as error:
            yield error.problem
            continue
        for key, value in values.items():
            yield from _value_problems(where, key, value, PER_QUEUE)


def _name_problems(where: str, name: Any) -> Iterator[Problem]:
    try:
        check_queue(name)
    except (TypeError, ValueError) as error:
        hint = "Put what is for every queue beside QUEUES." if name == "*" else None
        yield Problem("E006", f"{where}: {error}", hint)


def _value_problems(
    where: str, key: Any, value: Any, allowed: Collection[str]
) -> Iterator[Problem]:
    if key not in allowed:
        yield _unknown_key(where, key, allowed)
        return
    try:
        SETTINGS[key].read(f"{where}[{key!r}]", value)
    except WrongSetting as error:
        yield error.problem


def _unknown_key(where: str, key: Any, allowed: Collection[str]) -> Problem:
    if key in SETTINGS or key == "QUEUES":
        return Problem(
            "E002",
            f"{where}[{key!r}] can't be set for one queue.",
            "Put it beside QUEUES, for all of them.",
        )
    names = sorted(allowed) if allowed is PER_QUEUE else [*allowed, "QUEUES"]
    close = get_close_matches(str(key).upper(), names, n=1)
    known = f"The keys are {', '.join(names)}."
    hint = f"Did you mean {close[0]!r}?" if close else known
    return Problem("E002", f"{where} has the unknown key {_short(key)}.", hint)


def _pair_problems(queues: Any) -> Iterator[Problem]:
    own = queues.items() if isinstance(queues, dict) else ()
    with_a_pair = [
        name
        for name, values in own
        if isinstance(values, dict) and {"LEASE", "SAFETY_BUFFER"} & values.keys()
    ]
    for queue in (None, *with_a_pair):
        try:
            problem = pair_problem(queue)
        except WrongSetting:
            continue  # told where the value itself was read
        if problem:
            yield problem


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
