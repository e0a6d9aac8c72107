"""Workers in the admin: which there are, what they take, when they were last seen."""

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from django_leasequeue.admin import shown
from django_leasequeue.admin.listing import LookOnlyAdmin
from django_leasequeue.admin.rows import WorkerRow
from django_leasequeue.models import Worker

QUEUES = shown.column(Worker, "queues", shown.names)


def _values(*names: str) -> tuple[Any, ...]:
    return tuple(shown.column(Worker, name, shown.pretty) for name in names)


class WorkerAdmin(LookOnlyAdmin):
    """Worker processes that were seen lately, or that ended without saying so."""

    list_display = ("name", "host", "pid", QUEUES, "age", "last_seen")
    listed_fields = ("name", "host", "pid", "queues", "started_at", "last_seen_at")
    sortable_by = ("name",)

    fieldsets = (
        (None, {"fields": ("name", ("host", "pid"))}),
        (
            _("Times"),
            {
                "fields": (
                    (
                        shown.column(Worker, "started_at", shown.local_time),
                        shown.column(Worker, "last_seen_at", shown.local_time),
                    ),
                )
            },
        ),
        (
            _("What it runs"),
            {"fields": _values("queues", "exclude", "tasks", "versions")},
        ),
    )

    @admin.display(description=_("age"))
    def age(self, worker: WorkerRow) -> str:
        """How long ago it was started, by the database's clock."""
        return shown.age(worker.started_at, worker.read_at)

    @admin.display(description=_("last seen"))
    def last_seen(self, worker: WorkerRow) -> str:
        """How long ago, by the database's clock."""
        return shown.age(worker.last_seen_at, worker.read_at)
