"""Column types that hold the same on every database."""

import json
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from django_leasequeue import db


class ExactCharField(models.CharField):  # type: ignore[type-arg]
    """Text that is equal only if every character is: case, accents and trailing spaces count."""

    def db_parameters(self, connection: Any) -> Any:
        parameters = super().db_parameters(connection)
        parameters["collation"] = db.exact_collation(connection)
        return parameters


class UTCDateTimeField(models.DateTimeField):  # type: ignore[type-arg]
    """An instant, stored as UTC whatever USE_TZ, TIME_ZONE and the connection's zone say.

    Read as an aware datetime in UTC. Takes aware datetimes; a naive one is read in TIME_ZONE
    where USE_TZ is off and refused where it is on, since it could mean any of several instants.
    """

    def to_python(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return _in_utc(value)
        value = super().to_python(value)
        return None if value is None else _in_utc(value)

    def get_prep_value(self, value: Any) -> Any:
        value = models.Field.get_prep_value(self, value)
        if value is None or hasattr(value, "resolve_expression"):
            return value
        return self.to_python(value)

    def get_db_prep_value(
        self, value: Any, connection: Any, prepared: Any = False
    ) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        if isinstance(value, datetime):
            return db.stored_time(value, connection)
        return value

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else db.loaded_time(value, connection, UTC)


def _in_utc(value: datetime) -> datetime:
    if timezone.is_naive(value):
        if settings.USE_TZ:
            raise ValueError(
                f"{value!r} has no time zone, so it could be any of several instants. Pass an "
                "aware datetime, such as django.utils.timezone.now() makes."
            )
        value = timezone.make_aware(value, timezone.get_default_timezone())
    return value.astimezone(UTC)


#: The database's present time as a column of what is read: an aware datetime in UTC.
NOW = models.ExpressionWrapper(db.DatabaseNow(), UTCDateTimeField())


class BrokenJSON(str):
    """What a JSON column holds that somebody else wrote and that is none."""


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON.")


# Python's own would take NaN and Infinity, which get_prep_value then could not write back.
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def read_json(text: str) -> Any:
    """Return the value that the text of a JSON column stands for; BrokenJSON if for none."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):  # no JSON, or nested beyond what is read
        return BrokenJSON(text)


class JSONTextField(models.TextField):  # type: ignore[type-arg]
    """A JSON value kept as ASCII text, so that it reads back exactly as it was written.

    JSON columns would not do: jsonb reads 1e22 back as an integer, MySQL turns integers
    beyond 64 bits into floats, and both reorder keys. A text that is no JSON is read as
    BrokenJSON, and written back as it was, so that its row can still be listed, shown and
    given up.
    """

    def get_prep_value(self, value: Any) -> Any:
        if value is None or hasattr(value, "resolve_expression"):
            return value
        if isinstance(value, BrokenJSON):
            return str(value)
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else read_json(value)

    def to_python(self, value: Any) -> Any:
        return value

    def value_to_string(self, obj: Any) -> Any:
        # For dumpdata, whose formats (but XML) hold any JSON value; loaddata hands the same
        # to to_python().
        return self.value_from_object(obj)
