"""Collations and partial indexes."""

from typing import Any

from django.db import models


def exact_collation(connection) -> str | None:
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

    def as_mysql(self, compiler, connection, **context):
        return self.as_sql(
            compiler, connection, template="CAST(%(expressions)s AS BINARY)", **context
        )


class PartialIndex(models.Index):
    """An index over the rows that meet `where`, a dict of column values or `column__isnull`.

    Where the database has no partial indexes, the columns whose value `where` tells, sorted,
    lead a full one, which serves the same queries. The condition is kept from Django's own
    `condition`, so that such databases get an index and no models.W037.
    """

    def __init__(self, *, where: dict[str, Any], **kwargs):
        self.where = where
        super().__init__(**kwargs)

    def create_sql(self, model, schema_editor, using="", **kwargs):
        if schema_editor.connection.features.supports_partial_indexes:
            index = models.Index(
                name=self.name, fields=self.fields, condition=models.Q(**self.where)
            )
        else:
            told = sorted(name for name in self.where if "__" not in name)
            index = models.Index(name=self.name, fields=[*told, *self.fields])
        return index.create_sql(model, schema_editor, using=using, **kwargs)

    def deconstruct(self):
        _, args, kwargs = super().deconstruct()
        return (
            "django_leasequeue.db.PartialIndex",
            args,
            {**kwargs, "where": self.where},
        )

    def __eq__(self, other):
        return super().__eq__(other) and self.where == getattr(other, "where", None)
