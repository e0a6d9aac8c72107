"""Values that are only known when a statement is sent, which is worked out before.

The ORM takes longer to work out a statement than the database to answer it: what is sent for
each job or claim is worked out once.
"""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple

from django.db import models

# By the place of a column: what turns the driver's value into the field's.
Converters = dict[int, tuple[list[Callable], Any]]


class Given(models.Expression):
    """Stands in a query for the value of this name, to be stored as the field does it."""

    def __init__(self, name: str, output_field: models.Field | None = None) -> None:
        super().__init__(output_field=output_field)
        self.name = name
        self._form: Callable[[Any], Any] | None = None

    def stored_as(self, form: Callable[[Any], Any]) -> "Given":
        """Return the same whose value is stored as `form(value)`."""
        made = copy(self)
        made._form = form
        return made

    def stored(self, value: Any, connection) -> Any:
        """Return a value as the driver's parameter."""
        if self._form is not None:
            return self._form(value)
        return self.output_field.get_db_prep_value(value, connection)

    def as_sql(self, compiler, connection):
        return "%s", [self]


class Statement(NamedTuple):
    """SQL and its parameters, some of them a Given."""

    sql: str
    params: list[Any]

    def filled(self, given: Mapping[str, Any], connection) -> tuple[str, list[Any]]:
        """Return what to send with these values."""
        return self.sql, [
            one.stored(given[one.name], connection) if isinstance(one, Given) else one
            for one in self.params
        ]


def convert(values: list, converters: Converters, connection) -> list:
    """Turn the driver's values of a row into the fields'."""
    for place, (steps, expression) in converters.items():
        if values[place] is not None:  # which every converter leaves as it is
            for step in steps:
                values[place] = step(values[place], expression, connection)
    return values
