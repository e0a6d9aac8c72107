"""By whom or where jobs are dispatched and changed, said by whoever knows it to all below.

A dispatch writes it into the job's `dispatched_by`, and what is done to a job by hand into its
`events`. Nothing decides by it: it is for people.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from django_leasequeue.payloads import clean_text

LONGEST_ORIGIN = 255
# Text, or what returns it, called only if there is something to write.
Origin = str | Callable[[], str]

# They serve others: what they dispatch has an origin of its own, or none that is known.
_SERVERS = {"runserver", "runserver_plus", "testserver", "runjobs", "test"}

_current: ContextVar[Origin | None] = ContextVar("leasequeue_origin", default=None)


@contextmanager
def dispatched_by(origin: Origin) -> Iterator[None]:
    """Let what is dispatched in this block tell where it comes from: `job.dispatched_by`.

    `origin`: a short text, cut to 255 characters, or a function that returns one and is
    called by each dispatch. Inside of another such block this one counts; also for what the
    block awaits, and what it hands to `sync_to_async`, but not in threads that it starts.
    """
    before = enter(origin)
    try:
        yield
    finally:
        leave(before)


def enter(origin: Origin) -> Origin | None:
    """Begin such a block, for less than a context manager costs; return leave()'s argument."""
    before = _current.get()
    _current.set(origin)
    return before


def leave(before: Origin | None) -> None:
    """End a block that enter() began. Not by a token: a coroutine may end elsewhere."""
    _current.set(before)


def current() -> str | None:
    """Return what is known here, fit for its column; None if nothing."""
    origin = _current.get()
    if origin is None:
        return _COMMAND
    text = origin if isinstance(origin, str) else origin()
    return clean_text(text, LONGEST_ORIGIN) or None


def of_job(pk: int) -> str:
    """Return the origin of what a job does."""
    return f"job {pk}"


def job_of(origin: str | None) -> int | None:
    """Return the id of the job that this is the origin for; None if it is another's."""
    word, _, number = (origin or "").partition(" ")
    is_id = word == "job" and number.isascii() and number.isdecimal()
    return int(number) if is_id and len(number) < 20 else None


def command_of(argv: Sequence[str]) -> str | None:
    """Return the management command that these are the arguments of, None if of none."""
    if len(argv) < 2 or not argv[1].isidentifier() or argv[1] in _SERVERS:
        return None
    program = Path(argv[0])
    if program.name == "__main__.py":  # python -m django
        program = program.parent
    if program.stem not in ("manage", "django-admin", "django"):
        return None
    return clean_text(f"manage.py {argv[1]}", LONGEST_ORIGIN)


_COMMAND = command_of(getattr(sys, "argv", ()))
