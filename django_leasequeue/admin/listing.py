"""Lists whose cost does not grow with the table."""

import logging
from typing import TYPE_CHECKING, Any, cast

import django
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import DatabaseError, router
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from django_leasequeue.fields import NOW

# Rows of a list: a hundred pages. Nobody turns more, and the last of them is read in
# milliseconds.
MOST = 10_000

# How the way to a page is marked up: see the template of breadcrumbs.
HAS_LIST_OF_CRUMBS = django.VERSION >= (6, 1)
logger = logging.getLogger("django_leasequeue.admin")

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
    _ModelAdmin = admin.ModelAdmin[Any]
else:  # Django's own can't be subscripted
    _Paginator, _ModelAdmin = Paginator, admin.ModelAdmin


class NewestPaginator(_Paginator):
    """Pages over the first rows of a list; how many there are beyond is not counted."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most MOST."""
        return min(self._counted, MOST)

    @property
    def is_cut(self) -> bool:
        """Whether there are rows that no page shows."""
        return self._counted > MOST

    @cached_property
    def _counted(self) -> int:
        # In order: a walk through the table as it lies meets all rows that have gone.
        rows = cast(QuerySet[Any], self.object_list).order_by("-pk").values("pk")
        return rows[: MOST + 1].count()


class NarrowList(ChangeList):
    """A list that fetches only the columns it shows."""

    model_admin: "LookOnlyAdmin"  # pyright: ignore[reportIncompatibleVariableOverride]

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        """See ChangeList."""
        rows = super().get_queryset(request, exclude_parameters)
        return rows.only(*self.model_admin.listed_fields)


class LookOnlyAdmin(_ModelAdmin):
    """Rows that only the queue itself writes: shown, and nothing else."""

    # The columns that the list needs.
    listed_fields: tuple[str, ...] = ()
    paginator = NewestPaginator
    # Both would count the whole table.
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions: Any = None

    class Media:
        css = {"all": ["leasequeue/admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody: a dispatch makes jobs, a worker its own row."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody: a change by hand would pass by the lease."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """See ModelAdmin."""
        return flatten_fieldsets(self.fieldsets or ())

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows where they are written, each with the time at which it was read.

        That is the database's. A replica may be late: what is done is for what was seen.
        """
        rows = super().get_queryset(request).annotate(read_at=NOW)
        return rows.using(router.db_for_write(self.model))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """See ModelAdmin."""
        return NarrowList

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return the list with its rows read.

        What the database or its driver refuses, such as a filter in the address with a value
        that makes no sense to it, or a table not there yet, becomes Django's page about that.
        """
        try:
            changes = super().get_changelist_instance(request)
            len(changes.result_list)
        except (DatabaseError, OverflowError) as error:
            logger.exception(
                "The list of %s can't be read.", self.opts.verbose_name_plural
            )
            raise IncorrectLookupParameters from error
        return changes
