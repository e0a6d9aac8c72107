"""An exception as an entry of a job's errors: bounded text, whatever it is."""

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
    exc: BaseException, *, attempt: int, worker: str, at: datetime
) -> dict[str, Any]:
    """Return what is kept of an exception: JSON values only, safe to store.

    `at`: when it happened, an aware datetime. Never raises because of the exception,
    and keeps no reference to it. Keys: exception_class ("module.Class"), message,
    traceback, attempt, at (ISO format, UTC), worker.
    """
    return {
        "exception_class": clean_text(class_name(type(exc)), NAME),
        "message": clean_text(message_of(exc), *MESSAGE),
        "traceback": clean_text(traceback_of(exc), *TRACEBACK),
        "attempt": attempt,
        "at": at.astimezone(UTC).isoformat(),
        "worker": clean_text(worker, NAME),
    }
