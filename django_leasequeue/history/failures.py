"""What went wrong: failed attempts with their tracebacks, and workers that were lost."""

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from django_leasequeue.errors import WORKERS_LOST
from django_leasequeue.history.event import Event, Kind, instant
from django_leasequeue.why.ended import in_short, last_error

# How entries of releases before there was "death" began.
_LOST = "The worker was lost: "
# What the supervisor says of a process that the kernel has ended.
_KILLED = "killed by SIGKILL"


def failures(job: Any) -> Iterator[Event]:
    """Yield the entries of the job's errors."""
    found = job.errors if isinstance(job.errors, list) else [job.errors]
    for entry in found:
        if not isinstance(entry, dict):
            yield Event(None, Kind.ATTEMPT_FAILED, _("An error."), str(entry))
        elif how := death_of(entry):
            yield _lost(entry, how)
        else:
            yield _failed(entry)


def death_of(entry: dict[str, Any]) -> str | None:
    """Return how the worker was lost that this entry is about, None if about none."""
    if isinstance(how := entry.get("death"), str):
        return how
    message = entry.get("message")
    if entry.get("exception_class") != WORKERS_LOST or not isinstance(message, str):
        return None
    is_lost = message.startswith(_LOST)
    return message.removeprefix(_LOST).removesuffix(".") if is_lost else None


def _lost(entry: dict[str, Any], how: str) -> Event:
    words = {"worker": entry.get("worker"), "how": how}
    sentence = _("Its worker %(worker)s was lost: %(how)s.")
    if how == _KILLED:
        sentence = _(
            "Its worker %(worker)s was lost: %(how)s, as the system does when memory runs "
            "out."
        )
    data = {**_facts(entry), "how": how}
    return Event(
        instant(entry.get("at")), Kind.WORKER_LOST, sentence % words, data=data
    )


def _failed(entry: dict[str, Any]) -> Event:
    error = in_short(last_error([entry]))
    words = {"attempt": entry.get("attempt"), "error": error}
    sentence = _("Attempt %(attempt)s failed: %(error)s")
    times = entry.get("times")
    if isinstance(times, int) and times > 1:
        words["times"] = times
        sentence = _("Given back %(times)s times in a row: %(error)s")
    detail, message = entry.get("traceback") or "", entry.get("message")
    if not detail and isinstance(message, str) and message not in error:
        detail = message  # of several lines
    data = _facts(entry)
    data["exception_class"] = last_error([entry])["exception_class"]
    at = instant(entry.get("at"))
    return Event(at, Kind.ATTEMPT_FAILED, sentence % words, str(detail), data)


def _facts(entry: dict[str, Any]) -> dict[str, Any]:
    names = ("attempt", "worker", "times")
    return {name: entry[name] for name in names if entry.get(name) is not None}
