"""What the dashboard's tables say, worked out from the figures."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_leasequeue.admin import shown
from django_leasequeue.admin.chart import Kind, chart
from django_leasequeue.models import Job, Queue, Schedule, Worker
from django_leasequeue.monitoring import (
    MOST_COUNTED,
    MOST_RUNNING,
    Failures,
    LastFailure,
    Overview,
    QueueFigures,
    RunningJob,
    ScheduleFigures,
    WorkerFigures,
)
from django_leasequeue.monitoring.failures import MOST_COUNTED as MOST_FAILURES
from django_leasequeue.states import Status
from django_leasequeue.times import local_time, span

# What the page shows of each; of more it says how many there are.
MOST_WORKERS = 50
MOST_SCHEDULES = 30
MOST_FAILING = 20
# Jobs of one worker.
MOST_JOBS = 5
HOUR = Kind(
    "hour", gettext_lazy("The last hour by minutes"), lambda at: at.minute % 15 == 0
)
DAY = Kind(
    "day",
    gettext_lazy("The last day by quarters of an hour"),
    lambda at: at.minute == 0 and at.hour % 4 == 0,
)


class Links:
    """Addresses in the site that shows the page; "" of what the user can't open there."""

    def __init__(self, site: AdminSite, request: HttpRequest) -> None:
        self._name = site.name
        self._may = {
            model
            for model in (Job, Queue, Schedule, Worker)
            if site.is_registered(model)
            and site.get_model_admin(model).has_view_permission(request)
        }

    def list(self, model: type[Model], **query: Any) -> str:
        """The list of a model."""
        if model not in self._may:
            return ""
        url = reverse(f"{self._name}:leasequeue_{model._meta.model_name}_changelist")
        return f"{url}?{urlencode(query)}" if query else url

    def page(self, model: type[Model], pk: Any) -> str:
        """The page of a row."""
        if model not in self._may:
            return ""
        name = f"{self._name}:leasequeue_{model._meta.model_name}_change"
        return reverse(name, args=[quote(pk)])


def rows_of(found: Overview, links: Links) -> dict[str, Any]:
    """Return the template's context."""
    figures = found.figures
    runs = defaultdict(list)
    for job in found.running:
        runs[job.worker].append(job)
    workers = _workers(figures.workers, runs, links)
    last = {(one.queue, one.task): one for one in found.last_failures}
    failing = figures.failures[:MOST_FAILING]
    return {
        "lists": [
            {"label": model._meta.verbose_name_plural, "url": links.list(model)}
            for model in (Job, Queue, Worker, Schedule)
            if links.list(model)
        ],
        "found": figures,
        "problems": [problem.sentence for problem in found.health.problems],
        "tiles": _tiles(found),
        "charts": [chart(HOUR, found.history.hour), chart(DAY, found.history.day)],
        "counted_until": found.history.until and local_time(found.history.until),
        "queues": [_queue(one, links) for one in figures.queues],
        "more_queues": figures.more_queues,
        "workers": workers[:MOST_WORKERS],
        "more_workers": max(0, len(workers) - MOST_WORKERS),
        "more_running": MOST_RUNNING if found.more_running else None,
        "failing": [
            _failing(one, last.get((one.queue, one.task)), links) for one in failing
        ],
        "more_failing": len(figures.failures) - len(failing),
        "schedules": [
            _schedule(one, links) for one in found.schedules[:MOST_SCHEDULES]
        ],
        "more_schedules": max(0, len(found.schedules) - MOST_SCHEDULES),
    }


def _tiles(found: Overview) -> list[dict[str, Any]]:
    figures = found.figures
    live = sum(worker.is_live for worker in figures.workers)
    ages = [one.oldest_ready for one in figures.queues if one.oldest_ready is not None]
    counted = [one.ready or 0 for one in figures.queues]
    return [
        {"label": _("Ready"), "value": _sum(counted)},
        {"label": _("Oldest ready"), "value": span(max(ages)) if ages else shown.EMPTY},
        {"label": _("Running"), "value": _sum(one.running for one in figures.queues)},
        {
            "label": _("Live workers"),
            "value": live,
            "bad": not live and any(counted),
        },
        {
            "label": _("Failed in the last hour"),
            "value": _number(figures.failed),
            "bad": bool(figures.failed),
        },
    ]


def _queue(one: QueueFigures, links: Links) -> dict[str, Any]:
    query = {"queue": one.name}
    return {
        "name": one.name,
        "url": links.list(Job, **query),
        "paused": one.paused,
        "pause": _pause(one),
        "ready": shown.EMPTY if one.ready is None else _counted(one.ready),
        "oldest": shown.EMPTY if one.oldest_ready is None else span(one.oldest_ready),
        "waiting": _counted(one.waiting),
        "waiting_url": links.list(Job, **query, status__exact=Status.PENDING.value),
        "blocked": _counted(one.blocked),
        "running": _counted(one.running),
        "running_url": links.list(Job, **query, status__exact=Status.RUNNING.value),
        "workers": one.workers,
        "unattended": bool(one.ready) and not one.workers,
    }


def _pause(one: QueueFigures) -> str:
    if one.paused_at is None:
        return ""
    words = {"by": one.paused_by, "at": local_time(one.paused_at)}
    text = _("by %(by)s, %(at)s") if one.paused_by else _("since %(at)s")
    return f"{text % words}: {one.reason}" if one.reason else text % words


def _workers(
    workers: list[WorkerFigures], runs: dict[str, list[RunningJob]], links: Links
) -> list[dict[str, Any]]:
    """Return those that are silent or gone first, since somebody has to look after them."""
    known = {worker.name for worker in workers}
    gone = [
        {
            "name": name,
            "state": "gone",
            "label": _("no longer listed"),
            **_jobs(jobs, links),
        }
        for name, jobs in sorted(runs.items())
        if name not in known
    ]
    listed = [
        {
            "name": worker.name,
            "url": links.page(Worker, worker.pk),
            "state": "live" if worker.is_live else "silent",
            "label": _("live") if worker.is_live else _("dead or cut off"),
            "seen": _("%(span)s ago") % {"span": span(worker.unseen)},
            "queues": shown.names(worker.queues),
            **_jobs(runs.get(worker.name, []), links),
        }
        for worker in workers
    ]
    return gone + sorted(listed, key=lambda one: one["state"] == "live")


def _jobs(jobs: list[RunningJob], links: Links) -> dict[str, Any]:
    return {
        "jobs": [
            {
                "pk": str(job.job),  # else in the language's groups of digits
                "task": shown.short(job.task),
                "url": links.page(Job, job.job),
                "since": span(job.seconds),
                "lease_past": job.lease_past,
            }
            for job in jobs[:MOST_JOBS]
        ],
        "more": max(0, len(jobs) - MOST_JOBS),
    }


def _failing(one: Failures, last: LastFailure | None, links: Links) -> dict[str, Any]:
    query = {"queue": one.queue, "status__exact": Status.FAILED.value}
    return {
        "queue": one.queue,
        "task": shown.short(one.task),
        "key": f"{one.queue} {one.task}",
        "count": _number(one.count, more=one.count >= MOST_FAILURES),
        "url": links.list(Job, **query),
        "last": last
        and {
            "pk": str(last.job),
            "url": links.page(Job, last.job),
            "ago": _("%(span)s ago") % {"span": span(last.ago)},
            "error": last.exception_class,
        },
    }


def _schedule(one: ScheduleFigures, links: Links) -> dict[str, Any]:
    return {
        "name": one.name,
        "url": links.page(Schedule, one.pk),
        "expression": shown.expression(one.kind, one.expression),
        "state": one.state,
        "label": shown.state_of_schedule(one.state),
        "paused_by": one.paused_by,
        "next": shown.EMPTY if one.next_tick is None else local_time(one.next_tick),
        "late": span(one.late) if one.is_bad and one.late else "",
        "last": shown.EMPTY if one.last_tick is None else local_time(one.last_tick),
        "last_job": "" if one.last_job is None else str(one.last_job),
        "last_job_url": "" if one.last_job is None else links.page(Job, one.last_job),
        "problem": one.problem,
    }


def _sum(counts: Iterable[int]) -> str:
    counts = list(counts)
    total = sum(min(count, MOST_COUNTED) for count in counts)
    return _number(total, more=any(count > MOST_COUNTED for count in counts))


def _counted(count: int) -> str:
    return _number(min(count, MOST_COUNTED), more=count > MOST_COUNTED)


def _number(count: int, more: bool = False) -> str:
    text = number_format(count, force_grouping=True)
    return _("%(number)s or more") % {"number": text} if more else text
