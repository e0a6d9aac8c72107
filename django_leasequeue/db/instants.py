"""The database's clock, and how it stores an instant."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connections, models

from django_leasequeue.db.given import Given

_INSTANT = models.DateTimeField()


class DatabaseNow(models.Func):
    """The database's present time in UTC, plus `delta`.

    `delta`: seconds or a timedelta of any sign, or a Given of seconds.

    Django's Now() is CURRENT_TIMESTAMP on MySQL, which is in the session's zone; this is
    UTC everywhere, with microseconds.
    """

    arity = 0
    output_field: "models.Field[Any, Any]" = _INSTANT  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, delta: timedelta | float | Given = 0) -> None:
        self.delta = (
            timedelta(seconds=delta) if isinstance(delta, int | float) else delta
        )
        super().__init__(output_field=_INSTANT)

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"No clock is known for {connection.vendor}.")

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        if not self.delta:
            return "STATEMENT_TIMESTAMP()", []
        return "(STATEMENT_TIMESTAMP() + %s::interval)", [self._shift(_interval)]

    def as_mysql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        if not self.delta:
            return "UTC_TIMESTAMP(6)", []
        return "(UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND)", [self._shift(_micros)]

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        # SQLite counts milliseconds; the zeros keep all stored texts of one length, so that
        # they compare as the times do.
        now = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f000', 'now'"
        if not self.delta:
            return f"{now})", []
        return f"{now}, %s)", [self._shift(_modifier)]

    def _shift(self, form: Callable[[timedelta], Any]) -> Any:
        if isinstance(self.delta, Given):
            return self.delta.stored_as(lambda given: form(timedelta(seconds=given)))
        return form(self.delta)


class Sortable(models.Func):
    """A time in the form in which the database tells it soonest; such forms sort as times do."""

    template = "%(expressions)s"
    arity = 1
    # Which leaves it as it comes.
    output_field: "models.Field[Any, Any]" = models.TextField()  # pyright: ignore[reportIncompatibleVariableOverride]

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        # Django has the driver make datetimes in Python.
        template = "DATE_PART('epoch', %(expressions)s)"
        return super().as_sql(compiler, connection, template=template, **more)


def _micros(delta: timedelta) -> int:
    return delta // timedelta(microseconds=1)


def _interval(delta: timedelta) -> str:
    return f"{_micros(delta)} microseconds"


def _modifier(delta: timedelta) -> str:
    return f"{delta / timedelta(seconds=1):+.3f} seconds"


def stored_time(value: datetime, connection: Any) -> Any:
    """Return an aware UTC datetime as the database's parameter for it."""
    if connection.vendor == "postgresql":
        return value
    return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def loaded_time(value: datetime, connection: Any, utc: tzinfo) -> datetime:
    """Return a datetime that Django read from a UTC column as an aware one in UTC."""
    if connection.vendor == "postgresql":
        if value.tzinfo is None:
            # Without USE_TZ Django drops the zone of the session; `fold` still tells the two
            # passes of a repeated hour apart.
            value = value.replace(tzinfo=ZoneInfo(connection.timezone_name))
        return value.astimezone(utc)
    # The column holds UTC; whatever zone Django put on it is the connection's setting.
    return value.replace(tzinfo=utc)


def database_now(using: str) -> datetime:
    """Ask a database for its present time, in UTC. One statement."""
    connection = connections[using]
    now, params = getattr(DatabaseNow(), f"as_{connection.vendor}")(None, connection)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {now}", params)
        [value] = cursor.fetchone()
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return loaded_time(value, connection, UTC)
