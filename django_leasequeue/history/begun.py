"""How a job came to be, and when it was due."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_leasequeue import origin, traces
from django_leasequeue.history.event import Event, Kind
from django_leasequeue.states import Status
from django_leasequeue.times import local_time

# A job that was not delayed is due some microseconds after it was made, as clocks go.
_AT_ONCE = timedelta(milliseconds=100)


def begun(job: Any, now: datetime) -> Iterator[Event]:
    """Yield the dispatch, those that this job answered, and its time if it had to wait."""
    yield _dispatched(job)
    if job.suppressed:
        sentence = ngettext(
            "It has answered %(count)d further dispatch of its dedup id, which made no job.",
            "It has answered %(count)d further dispatches of its dedup id, which made no "
            "job; this was the last.",
            job.suppressed,
        )
        data = {"count": job.suppressed}
        yield Event(job.last_suppressed_at, Kind.SUPPRESSED, sentence % data, data=data)
    if job.rerun:
        sentence = _("Another run was asked for: it begins when this one ends.")
        yield Event(job.last_suppressed_at, Kind.RERUN_ASKED, sentence)
    yield from _due(job, now)


def _dispatched(job: Any) -> Event:
    by, schedule, tick = job.dispatched_by, job.schedule, job.tick
    data = {"by": by, "job": origin.job_of(by), "schedule": schedule, "tick": tick}
    words = {"by": by, "schedule": schedule, "tick": tick and local_time(tick)}
    if schedule is None:
        sentence = _("Dispatched by %(by)s.") if by else _("Dispatched.")
    elif tick is not None:
        sentence = _(
            "Dispatched by the schedule “%(schedule)s”, for its tick at %(tick)s."
        )
    else:
        sentence = _("Dispatched from the schedule “%(schedule)s”, beside its ticks.")
        if by:
            sentence = _(
                "Dispatched from the schedule “%(schedule)s”, beside its ticks, by %(by)s."
            )
    facts = {name: value for name, value in data.items() if value is not None}
    return Event(job.created_at, Kind.DISPATCHED, sentence % words, data=facts)


def _due(job: Any, now: datetime) -> Iterator[Event]:
    if job.run_at > now and job.status == Status.PENDING:
        sentence = _("It is to run again then.") if job.claims else _("It is due then.")
        yield Event(job.run_at, Kind.DUE, sentence)
    elif (
        job.run_at > job.created_at + _AT_ONCE
        and (job.run_at <= job.started_at if job.started_at else not job.claims)
        and not any(one["kind"] == traces.MADE_DUE for one in traces.read(job.events))
    ):
        # What has moved it since would have moved it beyond the first claim.
        yield Event(job.run_at, Kind.DUE, _("Its time came."))
