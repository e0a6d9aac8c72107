"""Arguments and results as JSON text that every database stores and every worker reads.

What `dump` takes comes back from `load` equal, and of the same types: None, bool, int,
float, str, list, and dict with str keys, and these classes themselves. A subclass would
come back as its base, so it is refused. SafeString alone is taken, and comes back as
str: it is what rendering a template returns, and `str()` does not turn it into plain
text.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.utils.safestring import SafeString

from django_leasequeue.payloads.flat import flat_json
from django_leasequeue.payloads.hints import describe_type, what_to_use
from django_leasequeue.payloads.texts import breaks_databases

# MySQL parses JSON no deeper, so a payload can be looked into there with its functions.
# The encoder and the parser recurse, and Python allows about 1,000 frames in all.
MAX_DEPTH = 100

# A worker refuses to parse a longer number by default, whatever is allowed here.
MAX_DIGITS = sys.int_info.default_max_str_digits
_TOO_LONG = 10**MAX_DIGITS

_encode = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":")
).encode


def _refuse_constant(name: str) -> None:
    raise ValueError(f"The text holds {name}, which JSON does not know.")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


class _Place(NamedTuple):
    """A value's place in the whole: `key` in the container at `parent`."""

    parent: "_Place | None"
    key: str | int | None
    container: int  # id of the value itself, if it is a container
    depth: int


# A value, the place of the container it is in, and its key there.
_ToDo = tuple[Any, _Place | None, str | int | None]


def dump(
    value: Any,
    *,
    what: str,
    max_bytes: int,
    names: Sequence[str] = (),
    integers: range | None = None,
) -> str:
    """Return the value as ASCII JSON text without spaces; keys keep their order.

    `what` names the value in messages: "kwargs" gives "kwargs.order[2].id". `names`:
    what its first positions are called, for the arguments of a call. `integers`: all
    that are taken, those of 63 bits and the sign at least; of any size unless given.
    Raise TypeError for a value of another type, ValueError for one that some database
    or worker would refuse: NaN, infinities, NUL, lone surrogates, numbers above
    `MAX_DIGITS` digits, nesting deeper than `MAX_DEPTH`, text longer than `max_bytes`.
    """
    text = flat_json(value)
    if text is None:
        _check(value, what, max_bytes, names, integers)
        try:
            text = _encode(value)
        except ValueError as error:
            # This process allows fewer digits than the default.
            raise ValueError(f"{what}: {error}") from None
    if len(text) > max_bytes:
        raise _too_large(what, max_bytes)
    return text


def load(text: str) -> Any:
    """Return the value of JSON text; raise ValueError if it is none."""
    try:
        try:
            # Takes half as long, but no space around the value.
            value, end = _decoder.raw_decode(text)
            if end == len(text):
                return value
        except ValueError:
            pass
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("The JSON text is nested too deeply.") from None


def try_dump_result(value: Any, max_bytes: int) -> tuple[str | None, str | None]:
    """Return (JSON text, None) of a return value, or (None, why it is not kept)."""
    try:
        return dump(value, what="result", max_bytes=max_bytes), None
    except (TypeError, ValueError) as error:
        return None, f"The return value is not kept: {error}"


def _check(
    root: Any, what: str, max_bytes: int, names: Sequence[str], integers: range | None
) -> None:
    # Without recursion, so that no nesting is too deep to be told. `size` is never
    # above the length of the text: a small value that names one list a thousand times
    # over, on forty levels, is stopped before it is written out.
    size = 0
    todo: list[_ToDo] = [(root, None, None)]
    while todo:
        value, parent, key = todo.pop()
        kind = type(value)
        try:
            if kind is list or kind is dict:
                place = _Place(
                    parent, key, id(value), parent.depth + 1 if parent else 1
                )
                if place.depth > MAX_DEPTH:
                    raise ValueError(_too_deep(place))
                size += 2 if kind is list else _check_keys(value)
                todo += _children(value, place)
            else:
                size += _check_scalar(value, kind, integers)
        except (TypeError, ValueError) as error:
            where = _where(_Place(parent, key, 0, 0), what, names)
            raise type(error)(f"{where} {error}") from None
        if size > max_bytes:
            raise _too_large(what, max_bytes)


def _check_scalar(value: Any, kind: type, integers: range | None) -> int:
    """Return the least length of the value's text; raise with the end of a sentence."""
    if kind is str or kind is SafeString:
        broken = breaks_databases(value)
        if broken:
            raise ValueError(f"holds {broken}, which not every database stores.")
        return len(value) + 2
    if kind is int:
        if not -_TOO_LONG < value < _TOO_LONG:
            raise ValueError(f"is a number of more than {MAX_DIGITS:,} digits.")
        if integers is not None and value not in integers:
            raise ValueError(
                "is an integer that not every database keeps as JSON: pass it as text."
            )
    elif kind is float:
        if not math.isfinite(value):
            raise ValueError(f"is {value}, which JSON does not know.")
    elif value is not None and kind is not bool:
        raise TypeError(f"is {describe_type(kind)}: {what_to_use(kind)}.")
    return 1


def _check_keys(container: dict[str, Any]) -> int:
    """Return the least length of the text of the braces, keys and colons."""
    size = 2
    for key in container:
        kind = type(key)
        if kind is not str and kind is not SafeString:
            raise TypeError(f"has a key {describe_type(kind)}: the keys must be text.")
        broken = breaks_databases(key)
        if broken:
            raise ValueError(
                f"has the key {_shown(key)} with {broken}, "
                "which not every database stores."
            )
        size += len(key) + 3
    return size


def _children(container: list[Any] | dict[Any, Any], place: _Place) -> Iterator[_ToDo]:
    # Backwards, since the last of `todo` is looked at first: the first fault is told.
    if type(container) is dict:
        for key in reversed(container):
            yield container[key], place, key
    else:
        for index in reversed(range(len(container))):
            yield container[index], place, index


def _too_deep(place: _Place) -> str:
    above = place.parent
    while above:
        if above.container == place.container:
            return "refers to itself."
        above = above.parent
    return f"is nested deeper than {MAX_DEPTH} levels."


def _too_large(what: str, max_bytes: int) -> ValueError:
    return ValueError(
        f"{what} is longer than the {max_bytes:,} bytes of JSON that are allowed: "
        "store the data elsewhere and use its id."
    )


def _where(place: _Place, what: str, names: Sequence[str]) -> str:
    steps, first = [], None
    while place.parent:
        steps.append(_step(place.key))
        first, place = place.key, place.parent
    path = _shortened(what + "".join(reversed(steps)))
    if type(first) is int and first < len(names):
        return f"Argument {names[first]!r} ({path})"
    return path


def _step(key: str | int | None) -> str:
    return f".{key}" if type(key) is str and key.isidentifier() else f"[{_shown(key)}]"


def _shown(key: object) -> str:
    return _shortened(ascii(key))


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:60]}…{text[-50:]}"
