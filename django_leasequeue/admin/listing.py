"""Lists whose cost does not grow with the table."""

import logging
from typing import cast

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import DatabaseError
from django.db.models import ExpressionWrapper, QuerySet
from django.utils.functional import cached_property

from django_leasequeue.db import DatabaseNow
from django_leasequeue.fields import UTCDateTimeField

logger = logging.getLogger("django_leasequeue.admin")


class NewestPaginator(Paginator):
    """Pages over the first rows of a list; how many there are beyond is not counted."""

    # A hundred pages. Nobody turns more, and the last of them is read in milliseconds.
    most = 10_000

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most `most`."""
        return min(self._counted, self.most)

    @property
    def is_cut(self) -> bool:
        """Whether there are rows that no page shows."""
        return self._counted > self.most

    @cached_property
    def _counted(self) -> int:
        rows = cast(QuerySet, self.object_list).order_by().values("pk")
        return rows[: self.most + 1].count()


class NarrowList(ChangeList):
    """A list that fetches only the columns it shows."""

    model_admin: "LookOnlyAdmin"

    def get_queryset(self, request, exclude_parameters=None):
        """See ChangeList."""
        rows = super().get_queryset(request, exclude_parameters)
        return rows.only(*self.model_admin.listed_fields)


class LookOnlyAdmin(admin.ModelAdmin):
    """Rows that only the queue itself writes: shown, and nothing else."""

    # The columns that the list needs.
    listed_fields: tuple[str, ...] = ()
    paginator = NewestPaginator
    # Both would count the whole table.
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions: tuple[str, ...] | None = None

    class Media:
        css = {"all": ["leasequeue/admin.css"]}

    def has_add_permission(self, request):
        """Nobody: a dispatch makes jobs, a worker its own row."""
        return False

    def has_change_permission(self, request, obj=None):
        """Nobody: a change by hand would pass by the lease."""
        return False

    def has_delete_permission(self, request, obj=None):
        """Nobody."""
        return False

    def get_readonly_fields(self, request, obj=None):
        """See ModelAdmin."""
        return flatten_fieldsets(self.fieldsets or ())

    def get_queryset(self, request):
        """Return the rows, each with the database's time at which it was read."""
        now = ExpressionWrapper(DatabaseNow(), output_field=UTCDateTimeField())
        return super().get_queryset(request).annotate(read_at=now)

    def get_changelist(self, request, **kwargs):
        """See ModelAdmin."""
        return NarrowList

    def get_changelist_instance(self, request):
        """Return the list with its rows read.

        What the database refuses, such as a filter in the address with a value that makes
        no sense to it, or a table not there yet, becomes Django's page about that.
        """
        try:
            changes = super().get_changelist_instance(request)
            len(changes.result_list)
        except DatabaseError as error:
            logger.exception(
                "The list of %s can't be read.", self.opts.verbose_name_plural
            )
            raise IncorrectLookupParameters from error
        return changes
