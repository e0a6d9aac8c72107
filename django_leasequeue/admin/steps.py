"""The steps of a job, as its page shows them."""

from typing import Any

from django.contrib import admin
from django.template.loader import render_to_string
from django.utils.translation import gettext_lazy as _

from django_leasequeue import history
from django_leasequeue.admin import veil
from django_leasequeue.admin.rows import JobRow
from django_leasequeue.admin.shown import EMPTY, local_time
from django_leasequeue.history.read import LONGEST_RESULT
from django_leasequeue.models import Step
from django_leasequeue.payloads import clean_text

# Steps on a page, the newest.
MOST = history.MOST_STEPS


@admin.display(description=_("steps"))
def steps(job: JobRow) -> Any:
    """Return the steps of the job's round as HTML, oldest first."""
    found = steps_of(job)
    if not found:
        return EMPTY
    rows = [_row(job, step) for step in reversed(found[:MOST])]
    context = {"steps": rows, "most": MOST if len(found) > MOST else None}
    return render_to_string("admin/leasequeue/steps.html", context)


def steps_of(job: JobRow) -> list[Step]:
    """Return the newest steps of the job's round, one more than are shown."""
    return [step for step in all_steps(job) if step.round == job.round]


def all_steps(job: JobRow) -> list[Step]:
    """Return those of all rounds; asked for once, by a statement if the job was ever run."""
    found = job.__dict__.get("newest_steps")
    if found is None:
        found = job.newest_steps = history.steps_of(job)
    return found


def result_of(job: JobRow, step: Any) -> str:
    """Return the beginning of a step's result, as the page may show it."""
    if step.head is None:
        return ""
    head = veil.head_of_result(job, step.head, len(step.head) <= LONGEST_RESULT)
    return clean_text(head, LONGEST_RESULT)


def _row(job: JobRow, step: Any) -> dict[str, Any]:
    return {
        "name": step.name,
        "result": result_of(job, step),
        "seconds": f"{step.seconds:.3g}",
        "recorded_at": local_time(step.recorded_at),
        "attempt": step.attempt,
        "worker": step.worker,
    }
