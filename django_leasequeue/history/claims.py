"""Who claimed a job and when, as far as its row tells: of the first, the last, and errors."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_leasequeue import traces
from django_leasequeue.conf import conf
from django_leasequeue.history.event import Event, Kind, instant
from django_leasequeue.states import Status
from django_leasequeue.times import local_time, span


class _Claim(NamedTuple):
    worker: str | None
    attempt: int | None


def claims(job: Any, now: datetime) -> Iterator[Event]:
    """Yield each claim that is known, how many others there were, and the lease."""
    known = _known(job)
    for at, claim in known.items():
        words = {"worker": claim.worker, "attempt": claim.attempt}
        sentence = _("Claimed by %(worker)s.") if claim.worker else _("Claimed.")
        if claim.worker and claim.attempt:
            sentence = _("Claimed by %(worker)s, for attempt %(attempt)s.")
        yield Event(at, Kind.CLAIMED, sentence % words, data=_known_of(words))
    others = job.claims - len(known)
    if others > 0:
        sentence = ngettext(
            "In between it was claimed %(count)d more time; when is not kept.",
            "In between it was claimed %(count)d more times; when is not kept.",
            others,
        )
        data: dict[str, Any] = {"count": others}
        workers = sorted(set(job.worker_ids.split("\n")) - {""})
        data["workers"] = workers
        yield Event(None, Kind.MORE_CLAIMS, sentence % data, ", ".join(workers), data)
    if job.status == Status.RUNNING:
        yield _lease(job, now)


def _known(job: Any) -> dict[datetime, _Claim]:
    found: dict[datetime, _Claim] = {}
    if job.started_at is not None:
        names = job.worker_ids.split("\n")[:-1]
        first = names[0] if len(names) == job.claims else None
        found[job.started_at] = _Claim(first, None)
    for entry in [*_entries(job.errors), *traces.read(job.events)]:
        at = instant(entry.get("started_at"))
        if at is not None:
            worker, attempt = entry.get("worker"), entry.get("attempt")
            found[at] = _Claim(
                worker if isinstance(worker, str) else None,
                attempt if isinstance(attempt, int) else None,
            )
    last = job.last_attempted_at
    if last is not None:
        attempt = found[last].attempt if last in found else None
        if attempt is None and job.status in (Status.RUNNING, Status.SUCCEEDED):
            attempt = job.attempts + (job.status == Status.RUNNING)
        found[last] = _Claim(job.worker or None, attempt)
    return found


def _entries(errors: Any) -> list[dict[str, Any]]:
    found = errors if isinstance(errors, list) else []
    return [entry for entry in found if isinstance(entry, dict)]


def _known_of(words: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value is not None}


def _lease(job: Any, now: datetime) -> Event:
    until, since = job.processing_until, job.last_attempted_at
    held = (until - since).total_seconds() if since else 0.0
    renewed = held > conf.lease(job.queue) + 1
    data = {"worker": job.worker, "until": until, "renewed": renewed}
    words = {"worker": job.worker, "until": local_time(until), "held": span(held)}
    if until <= now:
        sentence = _("The lease of %(worker)s ended without a renewal.")
    elif renewed:
        sentence = _(
            "The lease of %(worker)s ends, unless it is renewed again, as it was so far."
        )
    else:
        sentence = _("The lease of %(worker)s ends, unless it is renewed.")
    return Event(until, Kind.LEASE_ENDS, sentence % words, data=data)
