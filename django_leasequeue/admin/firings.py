"""What a schedule's page shows beside its row: its next firings, and its last jobs."""

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.dateformat import format as date_format
from django.utils.translation import gettext as _

from django_leasequeue import transitions
from django_leasequeue.admin import shown
from django_leasequeue.admin.rows import ScheduleRow
from django_leasequeue.models import Job, Schedule
from django_leasequeue.schedules import preview

# Firings and jobs that are shown.
FIRINGS, JOBS = 20, 10
_FORM = "D Y-m-d H:i:s T"


def next_firings(schedule: ScheduleRow) -> str:
    """Return a table of the next ticks, in the schedule's zone and in UTC."""
    start = max(schedule.read_at, transitions.schedule.counted_from(schedule))
    try:
        found = list(preview(schedule.ticks, schedule.tz, start, FIRINGS))
    except ValueError as error:
        return str(error)
    if not found:
        return _("None is to come.")
    firings = [
        {
            "local": date_format(one.local, _FORM),
            "utc": date_format(one.at, _FORM),
            "clock_changes": one.clock_changes,
        }
        for one in found
    ]
    context = {"firings": firings, "tz": schedule.tz}
    return render_to_string("admin/leasequeue/firings.html", context)


def last_jobs(schedule: Schedule, site: str) -> str:
    """Return a table of the last jobs, each a link. `site`: the admin's name."""
    jobs = Job.objects.using(schedule._state.db)
    mine = jobs.filter(schedule=schedule.name, tick__isnull=False).order_by("-tick")
    found = list(mine.only("pk", "tick", "status")[:JOBS])
    if schedule.last_job is not None and schedule.last_job not in {
        job.pk for job in found
    }:
        found[:0] = jobs.filter(pk=schedule.last_job).only("pk", "tick", "status")
    rows = [
        {
            "id": str(job.pk),
            "url": reverse(f"{site}:leasequeue_job_change", args=[job.pk]),
            "tick": _("by hand") if job.tick is None else shown.local_time(job.tick),
            "status": shown.badge(job.status),
        }
        for job in found
    ]
    context = {
        "jobs": rows,
        "all": reverse(f"{site}:leasequeue_job_changelist"),
        "name": schedule.name,
    }
    return render_to_string("admin/leasequeue/schedule_jobs.html", context)
