"""What people may see of a job's arguments and results: the task option `redact`.

What a job holds stays as it is, since its task needs it; it is left out where it is shown.
Of errors, whose texts may quote an argument, it is left out before they are stored.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from django_leasequeue.fields import read_json

# What stands in the place of what is not shown.
HIDDEN = "[hidden]"
# The name of a result among those of arguments; no parameter can be called that.
RESULT = "return"
# A text shorter than this is not looked for in errors: it would be found by chance.
SHORTEST = 4

# Names of parameters, or what is called with a name and a value and returns what to show.
Redact = tuple[str, ...] | Callable[[str, Any], Any]

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def as_redact(task: str, given: Any, signature: inspect.Signature) -> Redact | None:
    """Return the option as it is kept; None if nothing is hidden.

    Raises TypeError for what it can't be, ValueError for a name that is no parameter.
    """
    if given is None or callable(given):
        if given is not None:
            _check_call(task, given)
        answer: Redact | None = given
        return answer
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Iterable) or isinstance(names, Mapping | bytes):
        raise TypeError(_wrong(task, given))
    names = tuple(names)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(_wrong(task, given))
    known = {*signature.parameters, RESULT}
    kinds = {one.kind for one in signature.parameters.values()}
    for name in names:
        if name not in known and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise ValueError(
                f"redact of {task!r} names {name!r}, which is no parameter of it. There are "
                f"{', '.join(sorted(known))}."
            )
    return names or None


def _check_call(task: str, function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind("name", None)
    except ValueError:
        pass  # some that are written in C don't say what they take
    except TypeError as error:
        raise TypeError(
            f"redact of {task!r} is called with the name and the value of an argument. "
            f"{function!r} can't be: {error}."
        ) from None


def _wrong(task: str, given: Any) -> str:
    return (
        f"redact of {task!r} takes names of parameters, such as ['password'], or a function "
        f"of a name and a value, not {given!r}."
    )


class Redaction:
    """The rule of one task. `redact` is None if it hides all."""

    def __init__(
        self, redact: Redact | None, signature: inspect.Signature | None = None
    ) -> None:
        self._redact = redact
        parameters = list(signature.parameters.values()) if signature else []
        self._positional = [one.name for one in parameters if one.kind in _POSITIONAL]
        self._named = {one.kind: one.name for one in parameters}

    def shown(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns of a job as they may be shown; others than those it knows as is."""
        return {name: self._column(name, value) for name, value in values.items()}

    def result(self, value: Any) -> Any:
        """Return a result, of the job or one of its steps, as it may be shown."""
        return None if value is None else self._seen(RESULT, value)

    def head_of_result(self, head: str, is_whole: bool) -> str:
        """Return the beginning of a result's JSON as it may be shown.

        What is cut can't be asked about: it is left out, unless only names say what is hidden.
        """
        if isinstance(self._redact, tuple):
            return HIDDEN if RESULT in self._redact else head
        seen = self.result(read_json(head)) if is_whole else HIDDEN
        return HIDDEN if seen == HIDDEN else json.dumps(seen)

    def without(self, args: Any, kwargs: Any) -> Callable[[str], str]:
        """Return what takes out of a text what is hidden of these arguments."""
        words: set[str] = set()
        for name, value in (*self._by_place(args), *self._by_name(kwargs)):
            seen = self._seen(name, value)
            if seen != value:
                words |= set(_texts(value)) - set(_texts(seen))
        # The longest first, of which another may be a part.
        found = sorted(words, key=len, reverse=True)

        def cleaned(text: str) -> str:
            for word in found:
                text = text.replace(word, HIDDEN)
            return text

        return cleaned

    def _column(self, column: str, value: Any) -> Any:
        if value is None:
            return None
        if column in ("args", "next_args"):
            if not isinstance(value, list):
                return HIDDEN
            return [self._seen(*one) for one in self._by_place(value)]
        if column in ("kwargs", "next_kwargs"):
            if not isinstance(value, dict):
                return HIDDEN
            return {name: self._seen(name, one) for name, one in value.items()}
        return self.result(value) if column == "result" else value

    def _by_place(self, args: Any) -> Iterator[tuple[str, Any]]:
        rest = self._named.get(inspect.Parameter.VAR_POSITIONAL, "")
        for place, value in enumerate(args if isinstance(args, list) else ()):
            few = place < len(self._positional)
            yield self._positional[place] if few else rest, value

    @staticmethod
    def _by_name(kwargs: Any) -> Iterable[tuple[str, Any]]:
        return kwargs.items() if isinstance(kwargs, dict) else ()

    def _seen(self, name: str, value: Any) -> Any:
        if self._redact is None or not name:  # "": the function has no such parameter
            return HIDDEN
        if isinstance(self._redact, tuple):
            return HIDDEN if self._is_named(name) else value
        try:
            seen = self._redact(name, value)
            json.dumps(seen)
        except Exception:
            return HIDDEN
        return seen

    def _is_named(self, name: str) -> bool:
        assert isinstance(self._redact, tuple)
        if name in self._redact:
            return True
        # What **options takes, if that is named itself.
        rest = self._named.get(inspect.Parameter.VAR_KEYWORD)
        is_rest = name not in (*self._named.values(), *self._positional, RESULT)
        return is_rest and rest in self._redact


# Of a task that nothing can be said about.
CLOSED = Redaction(None)


def arguments(
    signature: inspect.Signature | None, args: Any, kwargs: Any
) -> dict[str, Any] | None:
    """Return the arguments by the names of their parameters; None if they don't fit.

    Those of `*args` are a list under its name with the star, those of `**kwargs` as they
    were given. What a dispatch left to the function's defaults is not among them.
    """
    if signature is None or not isinstance(args, list) or not isinstance(kwargs, dict):
        return None
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    found: dict[str, Any] = {}
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found[f"*{name}"] = list(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


def _texts(value: Any) -> Iterator[str]:
    """Yield what a value may look like in a text: its parts, as they are and as quoted."""
    if isinstance(value, dict | list):
        for one in value:
            # A KeyError quotes a key.
            yield from _texts(one)
            if isinstance(value, dict):
                yield from _texts(value[one])
        return
    text = "" if value is None or isinstance(value, bool) else str(value)
    if len(text) >= SHORTEST:
        yield from (text, repr(text)[1:-1], json.dumps(text)[1:-1])
