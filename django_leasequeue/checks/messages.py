"""How a check says what it found."""

from collections.abc import Callable

from django.core.checks import CheckMessage, Error, Warning

from django_leasequeue import payloads
from django_leasequeue.payloads.tracebacks import message_of


def new_message(id: str, message: str, hint: str | None) -> CheckMessage:
    """Return an error or a warning, as the first letter of its id says."""
    kind: Callable[..., CheckMessage] = Error if id.startswith("E") else Warning
    return kind(message, hint=hint, id=f"leasequeue.{id}")


def told(error: Exception) -> str:
    """Return what an exception says, its kind first."""
    text = payloads.clean_text(message_of(error), 1_000)
    return f"{type(error).__name__}: {text}"
