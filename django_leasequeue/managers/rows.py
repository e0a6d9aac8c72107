"""Which rows a verb is for, and in which database."""

from typing import TYPE_CHECKING, TypeVar

from django.db import models, router

if TYPE_CHECKING:
    from django_leasequeue.models import Job

Row = TypeVar("Row", bound=models.Model)


class VerbQuerySet(models.QuerySet[Row]):
    """A queryset with verbs for the whole table."""

    if TYPE_CHECKING:
        _db: str | None

    def _rows(self) -> models.QuerySet[Row]:
        """Return the whole table's rows, where they are written."""
        if self.query.where or self.query.is_sliced:
            raise TypeError(
                "This verb is for the whole table and would ignore the filter. Call it on "
                f"{self.model.__name__}.objects or {self.model.__name__}.objects.using(alias)."
            )
        # Every read of a verb goes where it writes: a replica may not have the row yet.
        alias = self._db or router.db_for_write(self.model)
        return models.QuerySet(self.model, using=alias)


class OfJobs:
    """A part of JobQuerySet, which has these methods."""

    if TYPE_CHECKING:

        def _rows(self) -> models.QuerySet[Job]:
            raise NotImplementedError

        def _chosen(self) -> tuple[models.QuerySet[Job], list[int]]:
            raise NotImplementedError
