"""A job's events from all that its row tells, in order of time."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django_leasequeue.history.begun import begun
from django_leasequeue.history.by_hand import by_hand
from django_leasequeue.history.claims import claims
from django_leasequeue.history.ended import ended, progress, steps
from django_leasequeue.history.event import Event, Kind
from django_leasequeue.history.failures import failures

# Of what happened at one instant, what comes first; what is not named comes in between.
_FIRST = (Kind.DISPATCHED, Kind.SUPPRESSED, Kind.DUE, Kind.CLAIMED)
_LAST = (Kind.SUCCEEDED, Kind.FAILED, Kind.CANCELLED, Kind.LEASE_ENDS)


def timeline(
    job: Any,
    found: Iterable[dict[str, Any]],
    now: datetime,
    more_steps: bool = False,
) -> list[Event]:
    """Return the events of a job, the earliest first; those to come are the last.

    `job`: an instance with all columns. `found`: its steps as dicts, `result` a text to
    show. `now`: the database's time. Asks nothing.
    """
    timed: list[tuple[datetime, int, Event]] = []
    for events in (
        begun(job, now),
        by_hand(job),
        claims(job, now),
        failures(job),
        steps(job, found, more_steps),
        progress(job),
        ended(job),
    ):
        before = job.created_at
        for event in events:
            before = event.at or _guess(job, event.kind, before, now)
            timed.append((before, _rank(event.kind), event))
    # Stable: what is alike stays in its order.
    return [event for *_, event in sorted(timed, key=lambda one: one[:2])]


def _guess(job: Any, kind: Kind, before: datetime, now: datetime) -> datetime:
    """Return the place of what has no time: after `before`, unless more is known of it."""
    if kind == Kind.MORE_CLAIMS:
        return job.last_attempted_at or before
    if kind == Kind.PROGRESS:
        return job.finished_at or now
    return before


def _rank(kind: Kind) -> int:
    if kind == Kind.MORE_CLAIMS:
        return _FIRST.index(Kind.CLAIMED) - 1
    if kind in _FIRST:
        return _FIRST.index(kind)
    return len(_FIRST) + (1 + _LAST.index(kind) if kind in _LAST else 0)
