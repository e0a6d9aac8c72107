"""Collations, partial indexes and constraints."""

from typing import Any

from django.db import models


def exact_collation(connection: Any) -> str | None:
    """Return the collation under which texts are equal only if every character is.

    None where the database's own default is exact already.
    """
    if connection.vendor != "mysql":
        return None
    return "utf8mb4_nopad_bin" if connection.mysql_is_mariadb else "utf8mb4_0900_bin"


class Exactly(models.Func):
    """A text by which rows are told apart exactly, whatever the column's collation is."""

    arity = 1
    template = "%(expressions)s"

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(
            compiler, connection, template="CAST(%(expressions)s AS BINARY)", **context
        )


class PartialIndex(models.Index):
    """An index over the rows that meet `where`, a dict of column values or `column__isnull`.

    Where the database has no partial indexes, the columns whose value `where` tells, sorted,
    lead a full one, which serves the same queries; with `leading` False they are left out,
    so that what changes them has one index less to write. The condition is kept from Django's own
    `condition`, so that such databases get an index and no models.W037.
    """

    def __init__(
        self, *, where: dict[str, Any], leading: bool = True, **kwargs: Any
    ) -> None:
        self.where, self.leading = where, leading
        super().__init__(**kwargs)

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: Any,
        using: str = "",
        **kwargs: Any,
    ) -> Any:
        if schema_editor.connection.features.supports_partial_indexes:
            index = models.Index(
                name=self.name, fields=self.fields, condition=models.Q(**self.where)
            )
        else:
            told = sorted(
                name for name in self.where if self.leading and "__" not in name
            )
            index = models.Index(name=self.name, fields=[*told, *self.fields])
        return index.create_sql(model, schema_editor, using=using, **kwargs)

    def deconstruct(self) -> tuple[str, Any, Any]:
        _, args, kwargs = super().deconstruct()
        kwargs["where"] = self.where
        if not self.leading:
            kwargs["leading"] = False
        return "django_leasequeue.db.PartialIndex", args, kwargs

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and (self.where, self.leading) == (
            getattr(other, "where", None),
            getattr(other, "leading", None),
        )


class PartialUnique(models.UniqueConstraint):
    """Unique over the rows that meet `where`, a dict of column values or `column__isnull`.

    Where the database has no partial indexes it is over all rows, so `where` may leave out
    only such rows as never violate it: those with a null among `fields`. The condition is
    kept from Django's own `condition`, under which MySQL silently gets no constraint at all.
    """

    def __init__(self, *, where: dict[str, Any], **kwargs: Any) -> None:
        self.where = where
        super().__init__(**kwargs)

    def constraint_sql(
        self, model: type[models.Model] | None, schema_editor: Any
    ) -> Any:
        return self._made_for(schema_editor).constraint_sql(model, schema_editor)

    def create_sql(self, model: type[models.Model] | None, schema_editor: Any) -> Any:
        return self._made_for(schema_editor).create_sql(model, schema_editor)

    def remove_sql(self, model: type[models.Model] | None, schema_editor: Any) -> Any:
        return self._made_for(schema_editor).remove_sql(model, schema_editor)

    def deconstruct(self) -> tuple[str, Any, Any]:
        _, args, kwargs = super().deconstruct()
        return (
            "django_leasequeue.db.PartialUnique",
            args,
            {**kwargs, "where": self.where},
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartialUnique):
            return NotImplemented
        return super().__eq__(other) and self.where == other.where

    def _made_for(self, schema_editor: Any) -> models.UniqueConstraint:
        has_partial = schema_editor.connection.features.supports_partial_indexes
        condition = models.Q(**self.where) if has_partial else None
        return models.UniqueConstraint(
            fields=self.fields, name=self.name, condition=condition
        )
