"""Jobs in the admin: a list that stays quick, and a page with everything."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_leasequeue import db
from django_leasequeue.admin import neighbours, search, shown, veil
from django_leasequeue.admin.acting import ActingAdmin
from django_leasequeue.admin.dashboard import DashboardAdmin
from django_leasequeue.admin.entries import show_errors
from django_leasequeue.admin.filters import (
    GroupFilter,
    QueueFilter,
    ScheduleFilter,
    TaskFilter,
)
from django_leasequeue.admin.holder import holder
from django_leasequeue.admin.job_list import FoundPaginator, JobList
from django_leasequeue.admin.origin import may
from django_leasequeue.admin.reach import NEXT
from django_leasequeue.admin.rows import JobRow
from django_leasequeue.admin.steps import steps, steps_of
from django_leasequeue.admin.timeline import timeline
from django_leasequeue.admin.timing import timing
from django_leasequeue.admin.why import causes
from django_leasequeue.models import Job

STATE = shown.column(Job, "status", shown.badge)
TASK = shown.column(Job, "task", shown.short)
DEDUP = shown.column(Job, "dedup_id", shown.short)
ERRORS = shown.column(Job, "errors", show_errors)
STEPS: Any = steps
TIMELINE: Any = timeline
_ID = ("dedup_id", "released_dedup_id")
# What most jobs have nothing in, with the columns that make it worth showing.
OPTIONAL = {
    name: (name,)
    for name in (
        "next_args",
        "next_kwargs",
        "progress",
        "lost_alone",
        "suspect",
        "cancel_requested_at",
        *_ID,
        "dedup_hold",
        "dedup_ttl",
        "dedup_until",
        "rerun",
        "last_suppressed_at",
        "concurrency_key",
        "concurrency_limit",
        "blocked",
        "schedule",
        "tick",
    )
} | {
    "dedup_holder": _ID,
    "suppressed": (*_ID, "suppressed"),
    "awaited_group": ("blocked",),
    "dispatched_by": ("dispatched_by",),
    "neighbours": neighbours.COLUMNS,
    "events": ("events",),
}


def _times(*names: str) -> tuple[Any, ...]:
    return tuple(shown.column(Job, name, shown.local_time) for name in names)


def _values(*names: str) -> tuple[Any, ...]:
    return tuple(shown.column(Job, name, shown.pretty) for name in names)


def arguments(job: JobRow) -> str:
    """Return the arguments by name, or those by position if they don't fit the task."""
    found = veil.named(job)
    return shown.pretty(job.args if found is None else found)


ARGS = shown.of_row(Job, "args", arguments)


class JobAdmin(DashboardAdmin, ActingAdmin):
    """Jobs to look at, to cancel and to run, again or now; nobody edits or deletes one."""

    list_display = (
        "id",
        STATE,
        TASK,
        "timing",
        "queue",
        "attempts_made",
        DEDUP,
        "age",
        "priority",
    )
    listed_fields = (
        "status",
        "task",
        "queue",
        "dedup_id",
        "priority",
        "created_at",
        "run_at",
        "last_attempted_at",
        "finished_at",
        "blocked",
        "attempts",
        "max_attempts",
        "recoveries",
    )
    list_display_links = ("id", TASK)
    list_filter = ("status", QueueFilter, TaskFilter, ScheduleFilter, GroupFilter)
    # By any other column the whole table would be sorted.
    sortable_by = ("id", "age")
    search_fields = ("id",)  # for the box to be there; `search` decides what is found
    search_help_text = format_lazy(
        _(
            "A whole id, dedup id or group. If none is called so, a task, a part of a "
            "name in the first {count} jobs of the list, or of arguments in the first {few}."
        ),
        count=f"{NEXT:,}",
        few=f"{search.ARGUMENTS:,}",
    )

    # Names in one tuple share a line.
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "task",
                    (STATE, "queue", "priority", "group"),
                    "why",
                    "neighbours",
                )
            },
        ),
        (_("Timeline"), {"fields": (TIMELINE,)}),
        (
            _("Times"),
            {
                "fields": (
                    (
                        "dispatched_by",
                        *_times("created_at", "run_at", "cancel_requested_at"),
                    ),
                    _times("started_at", "last_attempted_at", "finished_at"),
                )
            },
        ),
        (
            _("Arguments"),
            {"fields": (ARGS, *_values("kwargs", "next_args", "next_kwargs", "meta"))},
        ),
        (_("Outcome"), {"fields": (*_values("result", "progress"), ERRORS)}),
        (_("Steps"), {"fields": (STEPS,)}),
        (
            _("Attempts"),
            {
                "fields": (
                    ("attempts_made", "recoveries", "round", "claims"),
                    ("lost_alone", "suspect"),
                    "events",
                )
            },
        ),
        (
            _("Lease"),
            {
                "fields": (
                    ("worker", *_times("processing_until")),
                    ("processing_token", "last_token"),
                    "worker_ids",
                )
            },
        ),
        (
            _("Dedup"),
            {
                "fields": (
                    ("dedup_id", "released_dedup_id"),
                    "dedup_holder",
                    ("dedup_hold", "dedup_ttl", *_times("dedup_until"), "rerun"),
                    ("suppressed", *_times("last_suppressed_at")),
                )
            },
        ),
        (
            _("Concurrency and schedule"),
            {
                "fields": (
                    (
                        "concurrency_key",
                        "concurrency_limit",
                        "blocked",
                        "awaited_group",
                    ),
                    ("schedule", *_times("tick")),
                )
            },
        ),
    )

    def has_see_arguments_permission(self, request: HttpRequest) -> bool:
        """Whether the user may see what jobs were given and have yielded."""
        return may(request, "leasequeue.view_job_arguments")

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> JobRow | None:
        """Return the job with what the user may see of it; None if there is none."""
        job = super().get_object(request, object_id, from_field)
        if job is not None:
            veil.draw(job, self.has_see_arguments_permission(request))
        return job

    def get_fieldsets(self, request: HttpRequest, obj: JobRow | None = None) -> Any:
        """Return the groups, without what this job has not."""
        groups: Any = self.fieldsets
        if obj is None:
            return groups
        optional = OPTIONAL
        if veil.named(obj) is not None:
            # They stand among the others.
            optional = {**OPTIONAL, "kwargs": ()}
        return [
            (title, options)
            for title, options in shown.without_empty(obj, groups, optional)
            if options["fields"] != ((STEPS,),) or steps_of(obj)
        ]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str
    ) -> tuple[QuerySet[Job], bool]:
        """See ModelAdmin."""
        return search.anywhere(queryset, search_term), False

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """See ModelAdmin."""
        with db.without_scans(self.get_queryset(request).db):
            return super().get_changelist_instance(request)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """See ModelAdmin."""
        return JobList

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        per_page: int,
        *args: Any,
        **kwargs: Any,
    ) -> "Paginator[Any]":
        """See ModelAdmin. Where the ids are known, a page is read by its own."""
        found = getattr(queryset, "found", None)
        if found is not None:
            return FoundPaginator(*found, per_page, *args, **kwargs)
        return super().get_paginator(request, queryset, per_page, *args, **kwargs)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """See ModelAdmin. Nobody finds out by a filter what they may not see."""
        if lookup.partition("__")[0] in veil.OF_JOB:
            return False
        return super().lookup_allowed(lookup, value, request)

    @admin.display(description=_("age"), ordering="-id")
    def age(self, job: JobRow) -> str:
        """How long ago the job was dispatched, by the database's clock."""
        return shown.age(job.created_at, job.read_at)

    @admin.display(description=_("waits or runs"))
    def timing(self, job: JobRow) -> Any:
        """How long it waits, runs or ran, or when it is due, by the database's clock."""
        return timing(job)

    @admin.display(description=_("why"))
    def why(self, job: JobRow) -> str:
        """Why the job is not running, or what it does instead."""
        return causes(job)

    @admin.display(description=_("neighbours"))
    def neighbours(self, job: JobRow) -> str:
        """Jobs, schedules and groups that it has to do with."""
        return neighbours.neighbours(job, self.admin_site.name)

    @admin.display(description=_("held by"))
    def dedup_holder(self, job: JobRow) -> str:
        """Who holds the job's dedup id, until when and how."""
        return holder(job, self.admin_site.name)

    @admin.display(description=_("waits for the group"))
    def awaited_group(self, job: JobRow) -> str:
        """The group that has to be done before the job starts."""
        return job.after_group or shown.EMPTY

    @admin.display(description=_("attempts"))
    def attempts_made(self, job: JobRow) -> str:
        """How many there were, of how many there may be, and how many workers it lost."""
        made = f"{job.attempts} / {job.max_attempts}"
        if not job.recoveries:
            return made
        lost = ngettext("%(n)d recovery", "%(n)d recoveries", job.recoveries)
        return f"{made}, {lost % {'n': job.recoveries}}"
