"""An exception as an entry of a job's errors: bounded text, whatever it is."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django_leasequeue.payloads.texts import clean_text
from django_leasequeue.payloads.tracebacks import class_name, message_of, traceback_of

# In characters, then in bytes of ASCII JSON. Enough for a message that quotes its SQL
# and for a traceback of a hundred frames; ten entries in one statement stay below half
# a megabyte.
MESSAGE = 2_000, 8_000
TRACEBACK = 16_000, 32_000
NAME = 255


def describe_error(
    exc: BaseException,
    *,
    attempt: int,
    worker: str,
    at: datetime,
    started_at: datetime | None = None,
    cleaned: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Return what is kept of an exception: JSON values only, safe to store.

    `at`: when it happened, and `started_at`, when its run was claimed: aware datetimes.
    `cleaned`: takes out of a text what nobody is to see.
    Never raises because of the exception, and keeps no reference to it. Keys:
    exception_class ("module.Class"), message, traceback, attempt, at (ISO format, UTC),
    worker, and started_at if it is known.
    """
    entry = {
        "exception_class": clean_text(class_name(type(exc)), NAME),
        "message": clean_text(cleaned(message_of(exc)), *MESSAGE),
        "traceback": clean_text(traceback_of(exc, cleaned), *TRACEBACK),
        "attempt": attempt,
        "at": at.astimezone(UTC).isoformat(),
        "worker": clean_text(worker, NAME),
    }
    if started_at is not None:
        entry["started_at"] = started_at.astimezone(UTC).isoformat()
    return entry
