"""Why a job is not running, on its page."""

from django.utils.html import format_html, format_html_join

from django_leasequeue.admin.rows import JobRow
from django_leasequeue.admin.veil import sentence
from django_leasequeue.models import Job


def causes(job: JobRow) -> str:
    """Return the causes as a list in HTML, what holds it back now first."""
    found = Job.objects.using(job._state.db).why(job.pk)
    lines = format_html_join(
        "", "<li>{}</li>", ((sentence(job, cause),) for cause in found)
    )
    return format_html('<ul class="leasequeue-why">{}</ul>', lines)
