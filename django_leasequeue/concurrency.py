"""A concurrency key and its limit: how many jobs that have it may run at one time.

A task's own key is a format over its arguments, filled in when a job is dispatched.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from typing import Any

from django_leasequeue.dedup import check_text

LONGEST_KEY = 255
# The largest that a PositiveIntegerField holds on every database.
_LARGEST = 2_147_483_647
# What is written into a key as everybody expects it to be.
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Concurrency:
    """At most `limit` jobs of one `key` run at any instant, whatever their tasks and queues.

    `key`: 1 to 255 characters, compared exactly. In `@task(concurrency=...)` a format over
    the task's arguments, such as "tenant:{tenant_id}", with their plain names alone; at a
    dispatch the key itself, in which braces mean nothing.
    `limit`: a whole number, at least 1. The one that counts for a job is its own, as it was
    dispatched; jobs of one key may have different ones.
    `supersedes`: whether a new job cancels older ones of its key that still wait.

    Raises ValueError or TypeError for anything else.
    """

    key: str
    limit: int = 1
    supersedes: bool = False

    def __post_init__(self) -> None:
        check_text("concurrency key", self.key, LONGEST_KEY)
        check_limit("The limit of a concurrency key", self.limit)
        _check_flag("supersedes", self.supersedes)


def _check_flag(what: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {type(value).__name__}.")


def check_limit(what: str, limit: Any) -> None:
    """Raise unless this many jobs may run at one time."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"{what} must be an int, not {type(limit).__name__}.")
    if not 1 <= limit <= _LARGEST:
        raise ValueError(f"{what} must be at least 1 and at most {_LARGEST:,}.")


def as_concurrency(wanted: str | Concurrency | None) -> Concurrency | None:
    """Return a key given as text or Concurrency as the latter."""
    if wanted is None or isinstance(wanted, Concurrency):
        return wanted
    return Concurrency(wanted)


def of_queue(queue: str, limit: int) -> Concurrency:
    """Return what bounds a whole queue: QUEUES[queue]["CONCURRENCY"]."""
    return Concurrency(f"queue:{queue}", limit)


def check_format(task: str, key: str, signature: inspect.Signature) -> None:
    """Raise ValueError unless the key can be filled in with the task's arguments."""
    where = f"The concurrency key {key!r} of {task!r}"
    try:
        parts = list(Formatter().parse(key))
    except ValueError as error:
        raise ValueError(f"{where} is no format: {error}.") from None
    known = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind
        not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise ValueError(
                f"{where} may hold plain names of arguments alone, such as {{tenant_id}}: no "
                "attributes, no items, nothing after ':' or '!'."
            )
        if name not in known:
            raise ValueError(
                f"{where} names {name!r}, which is none of its arguments"
                f" ({', '.join(known) or 'it has none'})."
            )


def filled_in(
    wanted: Concurrency,
    task: str,
    signature: inspect.Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Concurrency:
    """Return it with the key that these arguments make, which fit the signature.

    Raises TypeError for an argument that is neither text, number, bool nor None, ValueError
    for a key that is empty or too long.
    """
    if "{" not in wanted.key and "}" not in wanted.key:
        return wanted
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    for _, name, _, _ in Formatter().parse(wanted.key):
        if name is not None and not isinstance(bound.arguments[name], _PLAIN):
            kind = type(bound.arguments[name]).__name__
            raise TypeError(
                f"The concurrency key {wanted.key!r} of {task!r} needs a text or a number "
                f"for {name}, not {kind}."
            )
    try:
        return replace(wanted, key=wanted.key.format(**bound.arguments))
    except ValueError as error:
        raise ValueError(
            f"The concurrency key {wanted.key!r} of {task!r}, with these arguments: {error}"
        ) from None
