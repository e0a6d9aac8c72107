"""Jobs in the admin: a list that stays quick, and a page with everything."""

from typing import Any

from django.contrib import admin
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from django_leasequeue.admin import search, shown
from django_leasequeue.admin.entries import show_errors
from django_leasequeue.admin.filters import QueueFilter
from django_leasequeue.admin.holder import holder
from django_leasequeue.admin.listing import LookOnlyAdmin
from django_leasequeue.admin.steps import steps, steps_of
from django_leasequeue.models import Job

STATE = shown.column(Job, "status", shown.badge)
TASK = shown.column(Job, "task", shown.short)
DEDUP = shown.column(Job, "dedup_id", shown.short)
ERRORS = shown.column(Job, "errors", show_errors)
STEPS: Any = steps
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
        "blocked",
        "schedule",
        "tick",
    )
} | {"dedup_holder": _ID, "suppressed": (*_ID, "suppressed")}


def _times(*names):
    return tuple(shown.column(Job, name, shown.local_time) for name in names)


def _values(*names):
    return tuple(shown.column(Job, name, shown.pretty) for name in names)


class JobAdmin(LookOnlyAdmin):
    """Jobs to look at. They are made by dispatches, and changed by workers."""

    list_display = (
        "id",
        STATE,
        TASK,
        "queue",
        DEDUP,
        "priority",
        "age",
        "attempts_made",
    )
    listed_fields = (
        "status",
        "task",
        "queue",
        "dedup_id",
        "priority",
        "created_at",
        "attempts",
        "max_attempts",
    )
    list_display_links = ("id", TASK)
    list_filter = ("status", QueueFilter)
    # By any other column the whole table would be sorted.
    sortable_by = ("id", "age")
    search_fields = ("id",)  # for the box to be there; `search` decides what is found
    search_help_text = format_lazy(
        _(
            "An id or a whole dedup id; or, among the newest {count} jobs, a part of a "
            "task, group or dedup id."
        ),
        count=f"{search.NEWEST:,}",
    )

    # Names in one tuple share a line.
    fieldsets = (
        (None, {"fields": ("task", (STATE, "queue", "priority", "group"))}),
        (
            _("Times"),
            {
                "fields": (
                    _times("created_at", "run_at", "cancel_requested_at"),
                    _times("started_at", "last_attempted_at", "finished_at"),
                )
            },
        ),
        (
            _("Arguments"),
            {"fields": _values("args", "kwargs", "next_args", "next_kwargs", "meta")},
        ),
        (_("Outcome"), {"fields": (*_values("result", "progress"), ERRORS)}),
        (_("Steps"), {"fields": (STEPS,)}),
        (
            _("Attempts"),
            {
                "fields": (
                    ("attempts_made", "recoveries", "round", "claims"),
                    ("lost_alone", "suspect"),
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
                    ("concurrency_key", "blocked"),
                    ("schedule", *_times("tick")),
                )
            },
        ),
    )

    def get_fieldsets(self, request, obj=None):
        """Return the groups, without what this job has not."""
        if obj is None:
            return self.fieldsets
        return [
            (title, options)
            for title, options in shown.without_empty(obj, self.fieldsets, OPTIONAL)
            if options["fields"] != ((STEPS,),) or steps_of(obj)
        ]

    def get_search_results(self, request, queryset, search_term):
        """See ModelAdmin."""
        return search.matching(queryset, search_term), False

    @admin.display(description=_("age"), ordering="-id")
    def age(self, job):
        """How long ago the job was dispatched, by the database's clock."""
        return shown.age(job.created_at, job.read_at)

    @admin.display(description=_("held by"))
    def dedup_holder(self, job):
        """Who holds the job's dedup id, until when and how."""
        return holder(job, self.admin_site.name)

    @admin.display(description=_("attempts"))
    def attempts_made(self, job):
        """How many there were, of how many there may be."""
        return f"{job.attempts} / {job.max_attempts}"
