"""Why a job that has ended does not run."""

from typing import Any

from django.utils.translation import gettext as _

from django_leasequeue.states import Status
from django_leasequeue.times import local_time
from django_leasequeue.why.causes import Cause, Kind
from django_leasequeue.why.look import Look


def causes(seen: Look) -> list[Cause]:
    """Return how and when it has ended."""
    row = seen.row
    data = {"at": row["finished_at"], "worker": row["worker"]}
    words = {"at": local_time(row["finished_at"])}
    match row["status"]:
        case Status.SUCCEEDED:
            sentence = _("It has succeeded, at %(at)s.")
            return [Cause(Kind.SUCCEEDED, sentence % words, data)]
        case Status.FAILED:
            return [_failed(row, data, words)]
    asked = row["cancel_requested_at"]
    data["requested_at"] = asked
    if asked is None:
        sentence = _("It was cancelled before it ran, at %(at)s.")
        if row["claims"]:
            sentence = _("It was cancelled while it waited to run again, at %(at)s.")
    else:
        words["asked"] = local_time(asked)
        sentence = _("It was cancelled at %(at)s; that was asked for at %(asked)s.")
    return [Cause(Kind.CANCELLED, sentence % words, data)]


def _failed(row: dict[str, Any], data: dict[str, Any], words: dict[str, Any]) -> Cause:
    error = last_error(row["errors"])
    facts = {**data, "attempts": row["attempts"], "max_attempts": row["max_attempts"]}
    facts |= {"exception_class": error["exception_class"], "message": error["message"]}
    sentence = _(
        "It has failed for good, at %(at)s, after %(attempts)s of %(max)s attempts: %(error)s"
    )
    words |= {"attempts": row["attempts"], "max": row["max_attempts"]}
    return Cause(Kind.FAILED, sentence % {**words, "error": in_short(error)}, facts)


def last_error(errors: Any) -> dict[str, Any]:
    """Return class, message and instant of the newest error; "" for what is not there."""
    last = errors[-1] if isinstance(errors, list) and errors else None
    last = last if isinstance(last, dict) else {}
    names = ("exception_class", "message", "at")
    return {
        name: value if isinstance(value := last.get(name), str) else ""
        for name in names
    }


# Characters of an error in a sentence; its first line alone.
_LONGEST = 200


def in_short(error: dict[str, Any]) -> str:
    """Return an error's class and the first line of its message."""
    name = error["exception_class"].rpartition(".")[2]
    lines = error["message"].splitlines()
    first = lines[0] if lines else ""
    if len(lines) > 1 or len(first) > _LONGEST:
        first = f"{first[:_LONGEST]}…"
    return ": ".join(filter(None, (name, first))) or _("its error was not kept.")
