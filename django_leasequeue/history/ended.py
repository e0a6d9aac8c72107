"""How far a job has come, and how it has ended."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.utils.translation import gettext as _

from django_leasequeue import traces
from django_leasequeue.history.event import Event, Kind
from django_leasequeue.states import Status
from django_leasequeue.times import span


def steps(job: Any, found: Iterable[dict[str, Any]], more: bool) -> Iterator[Event]:
    """Yield the job's steps. `more`: whether there are earlier ones than these."""
    if more:
        yield Event(None, Kind.MORE_STEPS, _("There are earlier steps."))
    for step in found:
        words = {
            "name": step["name"],
            "seconds": f"{step['seconds']:.3g}",
            "round": step["round"],
        }
        sentence = _("Step “%(name)s” is recorded, after %(seconds)s seconds.")
        if step["round"] != job.round:
            sentence = _(
                "Step “%(name)s” of round %(round)s was recorded, after %(seconds)s seconds."
            )
        names = ("name", "round", "attempt", "worker", "seconds")
        data = {name: step[name] for name in names}
        detail = step.get("result") or ""
        yield Event(step["recorded_at"], Kind.STEP, sentence % words, detail, data)


def progress(job: Any) -> Iterator[Event]:
    """Yield what it said last of its progress, the time of which is not kept."""
    said = job.progress
    if said is None:
        return
    if not isinstance(said, dict):
        yield Event(None, Kind.PROGRESS, _("Its progress:"), str(said))
        return
    words = {name: said.get(name) for name in ("done", "total", "text")}
    sentence = _("It has come to %(done)s of %(total)s.")
    if words["total"] is None:
        sentence = _("It has come to %(done)s.")
    yield Event(
        None, Kind.PROGRESS, sentence % words, str(words["text"] or ""), dict(words)
    )


def ended(job: Any) -> Iterator[Event]:
    """Yield the end of a job that has ended, unless that stands among its events."""
    if job.finished_at is None:
        return
    ran = job.last_attempted_at and job.finished_at - job.last_attempted_at
    words = {
        "span": span(ran.total_seconds()) if ran else "",
        "attempts": job.attempts,
        "max": job.max_attempts,
    }
    data = {"attempts": job.attempts, "max_attempts": job.max_attempts}
    if job.status == Status.SUCCEEDED:
        sentence = _("Succeeded, after %(span)s.")
        yield Event(job.finished_at, Kind.SUCCEEDED, sentence % words, data=data)
    elif job.status == Status.FAILED:
        sentence = _("Failed for good, after %(attempts)s of %(max)s attempts.")
        yield Event(job.finished_at, Kind.FAILED, sentence % words, data=data)
    elif job.status == Status.CANCELLED and not _is_told(job):
        yield Event(job.finished_at, Kind.CANCELLED, _("Cancelled."), data=data)


def _is_told(job: Any) -> bool:
    entries = traces.read(job.events)
    return bool(entries) and entries[-1]["kind"] in (
        traces.CANCELLED,
        traces.SUPERSEDED,
    )
