"""Who holds a job's dedup id, until when and how."""

from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from django_leasequeue.admin.rows import JobRow
from django_leasequeue.admin.shown import EMPTY, local_time
from django_leasequeue.models import Job
from django_leasequeue.ownership import holds, with_window
from django_leasequeue.states import FINAL


def holder(job: JobRow, site: str) -> str:
    """Return the holder of the id that the job has or had. `site`: the admin's name.

    Costs a statement only if the job has its id no more.
    """
    if job.dedup_id is not None:
        return _rule(job) or _nobody()
    if job.released_dedup_id is None:
        return EMPTY
    jobs = Job.objects.using(job._state.db).order_by()
    mine = jobs.filter(queue=job.queue, dedup_id=job.released_dedup_id)
    other = with_window(mine).first()
    if other is None or not holds(other):
        return _nobody()
    url = reverse(f"{site}:leasequeue_job_change", args=[other.pk])
    return format_html('<a href="{}">{}</a>', url, _("job %s") % other.pk)


def _nobody() -> str:
    return _("nobody, so the next dispatch gets it")


def _rule(job: JobRow) -> str:
    """Return how long the job holds the id that it has, "" if it does no longer."""
    if job.dedup_hold == "removed":
        return _("this job, as long as its row exists")
    is_awaited = job.dedup_hold == "finished" and job.status not in FINAL
    if job.dedup_until is None or job.dedup_until <= job.read_at:
        return _("this job, until it has finished") if is_awaited else ""
    end = {"end": local_time(job.dedup_until)}
    if is_awaited:
        return _("this job, until %(end)s and until it has finished") % end
    return _("this job, until %(end)s") % end
