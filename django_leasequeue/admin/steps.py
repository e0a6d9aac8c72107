"""The steps of a job, as its page shows them."""

from typing import Any

from django.contrib import admin
from django.db.models import F, TextField
from django.db.models.functions import Left
from django.template.loader import render_to_string
from django.utils.translation import gettext_lazy as _

from django_leasequeue.admin.shown import EMPTY, local_time
from django_leasequeue.models import Step
from django_leasequeue.payloads import clean_text

# Steps on a page, the newest, and characters of what each returned.
MOST = 100
LONGEST_RESULT = 1_000


@admin.display(description=_("steps"))
def steps(job) -> Any:
    """Return the steps of the job's round as HTML, oldest first."""
    found = steps_of(job)
    if not found:
        return EMPTY
    rows = [_row(step) for step in reversed(found[:MOST])]
    context = {"steps": rows, "most": MOST if len(found) > MOST else None}
    return render_to_string("admin/leasequeue/steps.html", context)


def steps_of(job) -> list[Step]:
    """Return the newest steps of the job's round, one more than are shown; asked for once.

    Costs a statement if the job was ever run.
    """
    found = job.__dict__.get("newest_steps")
    if found is None:
        found = job.newest_steps = list(_newest(job)) if job.claims else []
    return found


def _newest(job):
    # Neither read nor parsed as a whole, as long as it may be.
    head = Left(F("result"), LONGEST_RESULT + 1, output_field=TextField())
    steps = Step.objects.using(job._state.db).filter(job_id=job.pk, round=job.round)
    return steps.annotate(head=head).defer("result").order_by("-id")[: MOST + 1]


def _row(step) -> dict:
    result = clean_text(step.head, LONGEST_RESULT) if step.head is not None else ""
    return {
        "name": step.name,
        "result": result,
        "seconds": f"{step.seconds:.3g}",
        "recorded_at": local_time(step.recorded_at),
        "attempt": step.attempt,
        "worker": step.worker,
    }
