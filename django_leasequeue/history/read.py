"""Reading what a timeline is made of."""

import json
from typing import Any

from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Left

from django_leasequeue.fields import NOW
from django_leasequeue.history.event import Event
from django_leasequeue.history.timeline import timeline
from django_leasequeue.payloads import clean_text

# Steps that are read, the newest, and characters of what each returned.
MOST_STEPS = 100
LONGEST_RESULT = 1_000


def read(rows: QuerySet[Any], pk: Any) -> list[Event]:
    """Return the timeline of the job of this id, empty if it has no row. Two statements."""
    job = rows.filter(pk=pk).annotate(read_at=NOW).order_by().first()
    if job is None:
        return []
    found = steps_of(job)
    shown = [_shown(step) for step in reversed(found[:MOST_STEPS])]
    return timeline(job, shown, job.read_at, len(found) > MOST_STEPS)


def steps_of(job: Any) -> list[Any]:
    """Return the newest steps of all rounds of a job, one more than are shown.

    Instances, newest first, with the beginning of the result's JSON as `head`: neither read
    nor parsed as a whole, as long as it may be. Costs a statement if the job was ever run.
    """
    if not job.claims:
        return []
    head = Left(F("result"), LONGEST_RESULT + 1, output_field=TextField())
    steps = job.steps.using(job._state.db).annotate(head=head).defer("result")
    return list(steps.order_by("-id")[: MOST_STEPS + 1])


def as_dict(step: Any, result: str) -> dict[str, Any]:
    """Return a step as timeline() takes it."""
    names = ("name", "round", "attempt", "worker", "seconds", "recorded_at")
    return {**{name: getattr(step, name) for name in names}, "result": result}


def _shown(step: Any) -> dict[str, Any]:
    head = json.dumps(None) if step.head is None else step.head
    return as_dict(step, clean_text(head, LONGEST_RESULT))
