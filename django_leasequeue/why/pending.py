"""What a pending job waits for: its time, its queue, a worker, a place."""

from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_leasequeue.times import local_time, span
from django_leasequeue.why import takers
from django_leasequeue.why.ahead import MOST, count_ahead
from django_leasequeue.why.blocked import blocked
from django_leasequeue.why.causes import Cause, Kind
from django_leasequeue.why.ended import in_short, last_error
from django_leasequeue.why.groups import awaited
from django_leasequeue.why.look import Look


def causes(seen: Look) -> list[Cause]:
    """Return all that stands in its way, its own time first."""
    row = seen.row
    is_due = row["run_at"] <= row["now"]
    found = [] if is_due else [_later(row)]
    found += [*_paused(seen), *blocked(seen), *awaited(seen)]
    found += [*takers.causes(seen), *_alone(row)]
    if not is_due or any(cause.kind is not Kind.RUNS_ALONE for cause in found):
        return found
    return [*found, _place(seen)]


def _later(row: dict[str, Any]) -> Cause:
    data: dict[str, Any] = {"at": row["run_at"]}
    words = {"at": local_time(row["run_at"]), "in": span(_until(row))}
    error = last_error(row["errors"])
    if not row["claims"] or not _is_of_last_run(row, error["at"]):
        sentence = _("It is due later: at %(at)s, in %(in)s.")
        return Cause(Kind.DUE_LATER, sentence % words, data)
    words["error"] = in_short(error)
    data |= {"exception_class": error["exception_class"], "message": error["message"]}
    if "times" in row["errors"][-1]:
        data["times"] = row["errors"][-1]["times"]
        sentence = _(
            "The worker that took it last does not know its task: it waits for one that "
            "does, and is tried again at %(at)s, in %(in)s."
        )
        return Cause(Kind.UNKNOWN_TASK, sentence % words, data)
    data |= {"attempts": row["attempts"], "max_attempts": row["max_attempts"]}
    words |= {"attempts": row["attempts"], "max": row["max_attempts"]}
    sentence = _(
        "Its attempt %(attempts)s of %(max)s failed; it is retried at %(at)s, in %(in)s. "
        "%(error)s"
    )
    return Cause(Kind.RETRY_LATER, sentence % words, data)


def _until(row: dict[str, Any]) -> float:
    return (row["run_at"] - row["now"]).total_seconds()


def _is_of_last_run(row: dict[str, Any], at: str) -> bool:
    """Whether an error was recorded by the latest run; a snooze, for one, records none."""
    try:
        return datetime.fromisoformat(at) >= row["last_attempted_at"]
    except (
        TypeError,
        ValueError,
    ):  # no time, none with a zone, or a row written by hand
        return False


def _paused(seen: Look) -> list[Cause]:
    pause = seen.pause()
    if pause is None:
        return []
    at, by, reason = pause["paused_at"], pause["paused_by"], pause["reason"]
    data = {"queue": seen.row["queue"], "at": at, "by": by, "reason": reason}
    words = {"queue": seen.row["queue"], "at": local_time(at), "by": by, "why": reason}
    sentence = _("Its queue “%(queue)s” is paused since %(at)s.")
    if by:
        sentence = _("Its queue “%(queue)s” is paused since %(at)s, by %(by)s.")
    told = sentence % words
    if reason:
        told += " " + _("Reason: %(why)s") % words
    return [Cause(Kind.QUEUE_PAUSED, told, data)]


def _alone(row: dict[str, Any]) -> list[Cause]:
    if not row["suspect"]:
        return []
    sentence = ngettext(
        "%(count)d worker was lost while it ran, so it is run alone, in a process of its "
        "own: it waits for one.",
        "%(count)d workers were lost while it ran, so it is run alone, in a process of its "
        "own: it waits for one.",
        row["recoveries"],
    )
    data = {"recoveries": row["recoveries"]}
    return [Cause(Kind.RUNS_ALONE, sentence % {"count": row["recoveries"]}, data)]


def _place(seen: Look) -> Cause:
    """What is left of the causes: its place in the queue."""
    count = count_ahead(seen)
    takers_of_it = sorted(taker.name for taker in seen.takers)
    data = {
        "ahead": min(count, MOST),
        "more": count > MOST,
        "workers": takers_of_it[:50],
    }
    words = {"count": min(count, MOST), "workers": len(takers_of_it)}
    if count > MOST:
        sentence = _("It waits behind more than %(count)d earlier jobs of its queue.")
        return Cause(Kind.BEHIND, sentence % words, data)
    if count:
        sentence = ngettext(
            "It waits behind %(count)d earlier job of its queue.",
            "It waits behind %(count)d earlier jobs of its queue.",
            count,
        )
        return Cause(Kind.BEHIND, sentence % words, data)
    sentence = ngettext(
        "It is the next of its queue, which %(workers)d live worker takes. If it stays so, "
        "that one is busy with other jobs or has died within the last minute, or somebody's open "
        "transaction has the row locked.",
        "It is the next of its queue, which %(workers)d live workers take. If it stays so, "
        "they are busy with other jobs or have died within the last minute, or somebody's open "
        "transaction has the row locked.",
        len(takers_of_it),
    )
    return Cause(Kind.NEXT, sentence % words, data)
