"""Values that are only known when a statement is sent, which is worked out before.

The ORM takes longer to work out a statement than the database to answer it: what is sent for
each job or claim is worked out once.
"""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple

from django.db import models

# By the place of a column: what turns the driver's value into the field's.
Converters = dict[int, tuple[list[Callable[..., Any]], Any]]


class Given(models.Expression):
    """Stands in a query for the value of this name, to be stored as the field does it."""

    def __init__(
        self, name: str, output_field: "models.Field[Any, Any] | None" = None
    ) -> None:
        super().__init__(output_field=output_field)
        self.name = name
        self._form: Callable[[Any], Any] | None = None

    def stored_as(self, form: Callable[[Any], Any]) -> "Given":
        """Return the same whose value is stored as `form(value)`."""
        made = copy(self)
        made._form = form
        return made

    def stored(self, value: Any, connection: Any) -> Any:
        """Return a value as the driver's parameter."""
        if self._form is not None:
            return self._form(value)
        return self.output_field.get_db_prep_value(value, connection)

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]


class Written(Given):
    """A Given of which not only the parameters differ from time to time, but the SQL."""

    @property
    def mark(self) -> str:
        """What stands for it in the SQL."""
        return f"<{self.name}>"

    def written(self, value: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the SQL of a value, and its parameters."""
        raise NotImplementedError

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return self.mark, [self]


class GivenList(Written):
    """For the right side of an IN: one value or several."""

    def written(self, value: Any, connection: Any) -> tuple[str, list[Any]]:
        stored = [self.stored(one, connection) for one in value]
        return ", ".join(["%s"] * len(stored)), stored


class GivenKeys(Written):
    """For the right side of an IN: integers, written into the statement.

    As parameters, hundreds of them take the driver longer than the server.
    """

    def written(self, value: Any, connection: Any) -> tuple[str, list[Any]]:
        return ", ".join(map(str, map(int, value))), []


class Statement(NamedTuple):
    """SQL and its parameters, some of them a Given."""

    sql: str
    params: list[Any]

    def filled(
        self, given: Mapping[str, Any], connection: Any
    ) -> tuple[str, list[Any]]:
        """Return what to send with these values."""
        sql, params = self.sql, []
        for one in self.params:
            if isinstance(one, Written):
                text, own = one.written(given[one.name], connection)
                sql = sql.replace(one.mark, text, 1)
                params += own
            elif isinstance(one, Given):
                params.append(one.stored(given[one.name], connection))
            else:
                params.append(one)
        return sql, params


def convert(values: list[Any], converters: Converters, connection: Any) -> list[Any]:
    """Turn the driver's values of a row into the fields'."""
    for place, (steps, expression) in converters.items():
        if values[place] is not None:  # which every converter leaves as it is
            for step in steps:
                values[place] = step(values[place], expression, connection)
    return values
