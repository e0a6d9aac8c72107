"""What somebody did to a job, and its being given back: the entries of its events."""

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from django_leasequeue import traces
from django_leasequeue.history.event import Event, Kind, instant


def by_hand(job: Any) -> Iterator[Event]:
    """Yield them, but for those that only a newer release knows."""
    asked = False
    for entry in traces.read(job.events):
        kind, at = entry["kind"], instant(entry.get("at"))
        data = {name: entry[name] for name in entry if name not in ("kind", "at")}
        asked = asked or kind == traces.CANCEL_REQUESTED
        if kind == traces.RELEASED:
            yield Event(at, Kind.RELEASED, _released(data), data=data)
        elif kind in _words():
            plain, told = _words()[kind]
            sentence = (told if data.get("by") else plain) % {"by": data.get("by")}
            if kind == traces.SUPERSEDED and "job" in data:
                sentence = _("Superseded by job %(job)s.") % {"job": data["job"]}
            yield Event(at, Kind(kind), sentence, data=data)
    if job.cancel_requested_at is not None and not asked:
        at = job.cancel_requested_at
        yield Event(at, Kind.CANCEL_REQUESTED, _("A cancel was asked for."))


def _words() -> dict[str, tuple[str, str]]:
    """Return the sentences by kind, without and with who did it."""
    return {
        traces.CANCELLED: (_("Cancelled."), _("Cancelled by %(by)s.")),
        traces.CANCEL_REQUESTED: (
            _("A cancel was asked for."),
            _("A cancel was asked for by %(by)s."),
        ),
        traces.SUPERSEDED: (
            _("Superseded by a newer job of its concurrency key."),
            _("Superseded by a newer job of its concurrency key, of %(by)s."),
        ),
        traces.RETRIED: (
            _("To be run again, in a new round."),
            _("To be run again, in a new round, by %(by)s."),
        ),
        traces.MADE_DUE: (_("Made due at once."), _("Made due at once by %(by)s.")),
    }


def _released(data: dict[str, Any]) -> str:
    words = {"worker": data.get("worker"), "by": data.get("by")}
    match data.get("why"):
        case traces.WORKER_STOPS:
            sentence = _("Given back by %(worker)s, which was stopped.")
        case traces.NEIGHBOUR_TIMEOUT:
            sentence = _(
                "Given back: %(worker)s was killed for a job beside it that did not stop at "
                "its timeout."
            )
        case traces.LEASE_LOST:
            sentence = _(
                "Given back by %(worker)s, which had to take its lease for lost."
            )
        case traces.BY_HAND if data.get("by"):
            sentence = _("Taken from its worker by %(by)s.")
        case traces.BY_HAND:
            sentence = _("Taken from its worker by hand.")
        case _:
            sentence = _("Given back.")
    return sentence % words
