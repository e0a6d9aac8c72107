"""Everything that happened to a job, as its page shows it."""

from django.contrib import admin
from django.template.loader import render_to_string
from django.utils.translation import gettext_lazy as _

from django_leasequeue import history
from django_leasequeue.admin import steps
from django_leasequeue.admin.rows import JobRow
from django_leasequeue.admin.shown import local_time
from django_leasequeue.history.read import as_dict
from django_leasequeue.payloads import clean_text

# Characters of a traceback here; the errors have it whole.
LONGEST_DETAIL = 5_000
# Of words that quote what a task said.
LONGEST_WORDS = 1_000


@admin.display(description=_("timeline"))
def timeline(job: JobRow) -> str:
    """Return the events of a job that `veil` has been drawn over, as HTML."""
    found = steps.all_steps(job)
    shown = [
        as_dict(step, steps.result_of(job, step))
        for step in reversed(found[: steps.MOST])
    ]
    events = history.timeline(job, shown, job.read_at, len(found) > steps.MOST)
    rows = [
        {
            "at": "" if event.at is None else local_time(event.at),
            "iso": "" if event.at is None else event.at.isoformat(),
            "is_coming": event.at is not None and event.at > job.read_at,
            "kind": event.kind.value,
            "words": clean_text(event.words, LONGEST_WORDS),
            "detail": clean_text(event.detail, LONGEST_DETAIL),
        }
        for event in events
    ]
    return render_to_string("admin/leasequeue/timeline.html", {"events": rows})
