"""The common case, a list or dict of a few plain scalars, at a fraction of the cost.

To look at nested values place by place, and to set up Python's encoder, takes longer than
everything else that a dispatch does.
"""

from collections.abc import Callable
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from django_leasequeue.payloads.texts import breaks_databases

# More than that is looked at before it is written out, since a small value may name one
# long text thousands of times over.
MOST = 100
LONGEST = 10_000


class _NotPlainError(Exception):
    """Something that has to be looked at, and perhaps refused with a good message."""


def flat_json(value: Any) -> str | None:
    """Return the ASCII JSON text of a value, if it is plain and holds nothing nested.

    None for any other, fine or not.
    """
    kind = type(value)
    try:
        if kind is list or kind is dict:
            if len(value) > MOST:
                return None
            return _list(value) if kind is list else _dict(value)
        return _TEXT[kind](value)
    except (KeyError, _NotPlainError):
        return None


def _list(value: list[Any]) -> str:
    return f"[{','.join([_TEXT[type(one)](one) for one in value])}]"


def _dict(value: dict[str, Any]) -> str:
    pairs = [f"{_key(key)}:{_TEXT[type(one)](one)}" for key, one in value.items()]
    return f"{{{','.join(pairs)}}}"


def _key(key: Any) -> str:
    if type(key) is not str:
        raise _NotPlainError
    return _text(key)


def _text(value: str) -> str:
    if len(value) > LONGEST or breaks_databases(value):
        raise _NotPlainError
    return _quoted(value)


def _number(value: int) -> str:
    if not -(2**63) <= value < 2**63:
        raise _NotPlainError
    return str(value)


# By the class itself: a subclass is looked at.
_TEXT: dict[type, Callable[[Any], str]] = {
    int: _number,
    str: _text,
    bool: {True: "true", False: "false"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}
