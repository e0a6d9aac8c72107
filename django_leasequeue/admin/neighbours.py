"""Jobs, schedules and groups that a job has to do with, as links. Each costs a small query."""

from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from django_leasequeue import origin, slots
from django_leasequeue.admin.shown import local_time
from django_leasequeue.models import GroupWait, Job
from django_leasequeue.states import Status

# Jobs of a group that are counted, the newest; and jobs that are named, of each kind.
COUNTED, NAMED = 1_000, 10

# The columns one of which a job has to have for there to be any.
COLUMNS = ("dispatched_by", "group", "schedule", "concurrency_key")


def neighbours(job: Job, site: str) -> str:
    """Return them as a list in HTML. `site`: the admin's name."""
    found = [*_parent(job, site), *_schedule(job, site), *_group(job, site)]
    found += _of_its_key(job, site)
    lines = format_html_join("", "<li>{}: {}</li>", found)
    return format_html('<ul class="leasequeue-neighbours">{}</ul>', lines)


def _parent(job: Job, site: str) -> Iterator[tuple[str, Any]]:
    parent = origin.job_of(job.dispatched_by)
    if parent is not None:
        yield _("dispatched by"), _jobs([parent], site)
    elif job.dispatched_by:
        yield _("dispatched by"), job.dispatched_by


def _schedule(job: Job, site: str) -> Iterator[tuple[str, Any]]:
    if job.schedule is None:
        return
    yield _("schedule"), _list(site, "schedule", job.schedule, name=job.schedule)
    if job.tick is None:
        return
    others = Job.objects.using(job._state.db).filter(schedule=job.schedule)
    earlier = others.filter(tick__lt=job.tick).order_by("-tick")
    later = others.filter(tick__gt=job.tick).order_by("tick")
    for words, of_tick in ((_("tick before"), earlier), (_("tick after"), later)):
        for pk, tick in of_tick.values_list("pk", "tick")[:1]:
            assert tick is not None
            yield words, format_html("{}, {}", _jobs([pk], site), local_time(tick))


def _group(job: Job, site: str) -> Iterator[tuple[str, Any]]:
    if not job.group:
        return
    rows = Job.objects.using(job._state.db).filter(group=job.group).order_by("-pk")
    statuses = list(rows.values_list("status", flat=True)[: COUNTED + 1])
    numbers = Counter(statuses[:COUNTED])
    counts = ", ".join(
        f"{status.label} {numbers[status]}" for status in Status if numbers[status]
    )
    if len(statuses) > COUNTED:
        counts = _("of the newest %(count)d: %(counts)s") % {
            "count": COUNTED,
            "counts": counts,
        }
    group = _list(site, "job", job.group, group=job.group)
    yield _("group"), format_html("{} ({})", group, counts)
    waits = GroupWait.objects.using(job._state.db).filter(group=job.group)
    waiting = list(waits.order_by("job").values_list("job", flat=True)[: NAMED + 1])
    if waiting:
        yield _("wait for this group"), _jobs(waiting, site)


def _of_its_key(job: Job, site: str) -> Iterator[tuple[str, Any]]:
    if job.concurrency_key is None:
        return
    rows = Job.objects.using(job._state.db).order_by()
    others = [pk for pk in slots.holders(rows, job.concurrency_key) if pk != job.pk]
    if others:
        yield _("run under its concurrency key"), _jobs(others, site)


def _jobs(ids: list[int], site: str) -> str:
    links = format_html_join(
        ", ",
        '<a href="{}">{}</a>',
        (
            (reverse(f"{site}:leasequeue_job_change", args=[pk]), _("job %s") % pk)
            for pk in ids[:NAMED]
        ),
    )
    return format_html("{} …", links) if len(ids) > NAMED else links


def _list(site: str, model: str, text: str, **wanted: str) -> str:
    url = reverse(f"{site}:leasequeue_{model}_changelist")
    return format_html('<a href="{}?{}">{}</a>', url, urlencode(wanted), text)
