"""Filters of the job list, none of which asks all jobs what there is."""

import contextlib
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_leasequeue import discovery, registry
from django_leasequeue.admin.reach import queues
from django_leasequeue.models import Schedule

# Names that a filter offers.
MOST_NAMES = 200


class ExactFilter(admin.SimpleListFilter):
    """Jobs with just this value in a column; also one that is not offered."""

    parameter_name: Any

    def names(
        self, model_admin: "admin.ModelAdmin[Any]", request: HttpRequest
    ) -> list[str]:
        """Return the values to offer."""
        return []

    def lookups(
        self, request: HttpRequest, model_admin: "admin.ModelAdmin[Any]"
    ) -> list[tuple[str, str]]:
        """See SimpleListFilter."""
        names = self.names(model_admin, request)[:MOST_NAMES]
        value = self.value()
        if value is not None and value not in names:
            names.append(value)
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """See SimpleListFilter."""
        value = self.value()
        return (
            queryset
            if value is None
            else queryset.filter(**{self.parameter_name: value})
        )


class QueueFilter(ExactFilter):
    """The queues that have jobs, read from the index."""

    title = _("queue")
    parameter_name = "queue"

    def names(
        self, model_admin: "admin.ModelAdmin[Any]", request: HttpRequest
    ) -> list[str]:
        """See ExactFilter."""
        return queues(model_admin.get_queryset(request))


class TaskFilter(ExactFilter):
    """The tasks that this process knows: to ask the jobs would be to read them all."""

    title = _("task")
    parameter_name = "task"

    def names(
        self, model_admin: "admin.ModelAdmin[Any]", request: HttpRequest
    ) -> list[str]:
        """See ExactFilter."""
        # A web process need not have imported all tasks, and may not be able to.
        with contextlib.suppress(Exception):
            discovery.autodiscover()
        return registry.names()


class ScheduleFilter(ExactFilter):
    """The schedules that there are."""

    title = _("schedule")
    parameter_name = "schedule"

    def names(
        self, model_admin: "admin.ModelAdmin[Any]", request: HttpRequest
    ) -> list[str]:
        """See ExactFilter."""
        using = model_admin.get_queryset(request).db
        names = Schedule.objects.using(using).order_by("name")
        return list(names.values_list("name", flat=True)[:MOST_NAMES])


class GroupFilter(ExactFilter):
    """A group, by a link from one of its jobs: nobody knows which there are."""

    title = _("group")
    parameter_name = "group"
