"""A traceback as text of bounded length, made without trusting the exception.

The standard library formats every cause and every frame before anything can be cut, and
runs the exception's own code in places. Here a long chain, a deep stack and a wide
group are cut first. Exceptions are code of the task's author, so whatever their methods
raise is kept away from the worker, SystemExit included.
"""

import traceback
from collections.abc import Callable, Iterator
from types import TracebackType

from django_leasequeue.payloads.texts import clean_text

# The exception itself and its latest causes say where it surfaced, the first ones why.
LATEST_CAUSES, FIRST_CAUSES = 5, 3
# Frames kept of each exception: the way in, and the place where it happened.
OUTER_FRAMES, INNER_FRAMES = 15, 25
GROUP_MEMBERS, GROUP_DEPTH = 5, 2
MESSAGE_CHARS = 1_000
NOTES = 10

_BECAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def class_name(kind: type) -> str:
    """Return "module.Class" of a class."""
    try:
        return f"{kind.__module__}.{kind.__qualname__}"
    except Exception:  # a metaclass may answer with anything
        return type.__repr__(kind)


def message_of(exc: BaseException) -> str:
    """Return str(exc), or a text that says why there is none."""
    return _text_of(exc)


def traceback_of(exc: BaseException, cleaned: Callable[[str], str] = str) -> str:
    """Return the traceback as Python prints it, with long parts cut.

    `cleaned`: takes out of the exceptions' texts what nobody is to see.
    """
    try:
        return "".join(_chain(exc, GROUP_DEPTH, cleaned))
    except BaseException as error:  # as in _text_of, in any attribute
        return f"(no traceback: reading it raised {class_name(type(error))})"


def _text_of(value: object) -> str:
    try:
        return str.__str__(str(value))
    except BaseException as error:  # its __str__ may raise even SystemExit
        return f"(no text: its __str__ raised {class_name(type(error))})"


def _chain(
    exc: BaseException, depth: int, cleaned: Callable[[str], str]
) -> Iterator[str]:
    links = _links(exc)
    cut = len(links) - LATEST_CAUSES - FIRST_CAUSES
    for place in reversed(range(len(links))):
        if LATEST_CAUSES <= place < LATEST_CAUSES + cut:
            if place == LATEST_CAUSES:
                yield f"\n… ({cut:,} exceptions between these cut) …\n\n"
            continue
        error, joint = links[place]
        yield from _one(error, depth, cleaned)
        yield joint


def _links(exc: BaseException) -> list[tuple[BaseException, str]]:
    """Return the exception and its causes, latest first, each with what follows it."""
    links, seen, joint = [], set(), ""
    error: BaseException | None = exc
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        links.append((error, joint))
        if error.__cause__ is not None:
            error, joint = error.__cause__, _BECAUSE
        elif error.__suppress_context__:
            error = None
        else:
            error, joint = error.__context__, _DURING
    return links


def _one(
    exc: BaseException, depth: int, cleaned: Callable[[str], str]
) -> Iterator[str]:
    if exc.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from _frames(exc.__traceback__)
    message = clean_text(cleaned(message_of(exc)), MESSAGE_CHARS)
    name = class_name(type(exc))
    yield f"{name}: {message}\n" if message else f"{name}\n"
    notes = getattr(exc, "__notes__", ())
    for note in list(notes)[:NOTES] if isinstance(notes, list | tuple) else ():
        yield f"{clean_text(cleaned(_text_of(note)), MESSAGE_CHARS)}\n"
    if isinstance(exc, BaseExceptionGroup):
        yield from _members(exc, depth, cleaned)


def _frames(start: TracebackType) -> Iterator[str]:
    steps: list[TracebackType] = []
    step: TracebackType | None = start
    while step is not None:
        steps.append(step)
        step = step.tb_next
    try:
        cut = len(steps) - OUTER_FRAMES - INNER_FRAMES
        if cut <= 0:
            yield from traceback.format_tb(start)
        else:
            yield from traceback.format_tb(start, limit=OUTER_FRAMES)
            yield f"  … ({cut:,} frames cut) …\n"
            yield from traceback.format_tb(steps[-INNER_FRAMES])
    except Exception as error:  # a module's loader, asked for its source, may raise
        yield f"  (the frames can't be shown: {class_name(type(error))})\n"


def _members(
    group: BaseExceptionGroup, depth: int, cleaned: Callable[[str], str]
) -> Iterator[str]:
    members = group.exceptions
    shown = members[:GROUP_MEMBERS] if depth else ()
    for number, member in enumerate(shown, 1):
        text = "".join(_chain(member, depth - 1, cleaned))
        yield f"  ---- {number} of {len(members)} ----\n"
        yield "".join(f"  {line}" for line in text.splitlines(keepends=True))
    if len(members) > len(shown):
        yield f"  … ({len(members) - len(shown):,} exceptions of the group cut) …\n"
