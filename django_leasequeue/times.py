"""Instants and spans as people read them, and as JSON has them."""

from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import ngettext

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def local_time(value: datetime) -> str:
    """Return an instant in the current time zone, to the second.

    Not by Django's own formats: without USE_TZ they would show UTC as if it were local.
    """
    try:
        value = timezone.localtime(value)
    except OverflowError:  # next to the ends of the calendar
        return value.isoformat(sep=" ")
    return value.strftime("%Y-%m-%d %H:%M:%S %Z")


def with_isoformat(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values by their names, the instants among them as ISO 8601."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
    }


def span(seconds: float) -> str:
    """Return a span in one unit, cut to a whole number of it: "3 minutes"."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return ngettext("%(n)d second", "%(n)d seconds", whole) % {"n": whole}
    if whole < _HOUR:
        n = whole // _MINUTE
        return ngettext("%(n)d minute", "%(n)d minutes", n) % {"n": n}
    if whole < 2 * _DAY:
        n = whole // _HOUR
        return ngettext("%(n)d hour", "%(n)d hours", n) % {"n": n}
    n = whole // _DAY
    return ngettext("%(n)d day", "%(n)d days", n) % {"n": n}
