"""Filters of the job list."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from django_leasequeue.admin.search import queues


class QueueFilter(admin.SimpleListFilter):
    """The queues that have jobs, read from the index."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request, model_admin):
        """See SimpleListFilter."""
        return [(name, name) for name in queues(model_admin.get_queryset(request))]

    def queryset(self, request, queryset):
        """See SimpleListFilter."""
        name = self.value()
        return queryset if name is None else queryset.filter(queue=name)
