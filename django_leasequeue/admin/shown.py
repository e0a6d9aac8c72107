"""How values of a row are shown: always as text, never as markup of their own."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.utils import timezone
from django.utils.html import format_html
from django.utils.timesince import timesince
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_leasequeue.fields import BrokenJSON
from django_leasequeue.payloads import clean_text
from django_leasequeue.states import Status

# Characters of a JSON value on a page. All that a dispatch takes by default is a mebibyte;
# a browser shows a tenth of it without trouble.
LONGEST_JSON = 100_000
# Characters of a name in a row of a list.
LONGEST_NAME = 60
EMPTY = "-"


def column(model, name: str, show: Callable[[Any], Any]) -> Any:
    """Return a model field as the admin takes it, shown by `show` unless it is null."""

    @admin.display(description=model._meta.get_field(name).verbose_name)
    def shown(row):
        value = getattr(row, name)
        return EMPTY if value is None else show(value)

    shown.__name__ = name  # the admin's class of the page's line
    return shown


def without_empty(row, fieldsets, optional: Mapping[str, Iterable[str]]):
    """Return the fieldsets without the optional fields in which the row has nothing.

    `optional`: the columns by which a field is shown: where one of them is not as every row
    starts. A group that is left without fields goes with them.
    """

    def is_shown(field) -> bool:
        columns = optional.get(getattr(field, "__name__", field))
        return columns is None or any(
            getattr(row, name) != row._meta.get_field(name).get_default()
            for name in columns
        )

    for title, options in fieldsets:
        lines = [
            tuple(filter(is_shown, line if isinstance(line, tuple) else (line,)))
            for line in options["fields"]
        ]
        if any(lines):
            yield title, {**options, "fields": tuple(filter(None, lines))}


def badge(status: str):
    """Return a status as a coloured word, also one that this release does not know."""
    known = status in Status.values
    return format_html(
        '<span class="leasequeue-status leasequeue-{}">{}</span>',
        status if known else "unknown",
        Status(status).label if known else status,
    )


def short(text: str):
    """Return a text of a list's column, cut if it is long; the whole is its title."""
    if len(text) <= LONGEST_NAME:
        return text
    return format_html('<span title="{}">{}…</span>', text, text[:LONGEST_NAME])


def names(value: Any) -> str:
    """Return a list of texts on one line, anything else as JSON."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return _fit(", ".join(value))
    return json_text(value)


def local_time(value: datetime) -> str:
    """Return an instant in the current time zone, to the second.

    Not by Django's own formats: without USE_TZ they would show UTC as if it were local.
    """
    try:
        value = timezone.localtime(value)
    except OverflowError:  # next to the ends of the calendar
        return value.isoformat(sep=" ")
    return value.strftime("%Y-%m-%d %H:%M:%S %Z")


def age(since: datetime, now: datetime):
    """Return how long ago `since` is, in one unit; the instant is its title."""
    past = now - since
    if past < timedelta(minutes=1):
        seconds = max(0, past // timedelta(seconds=1))
        text = ngettext("%(count)d second", "%(count)d seconds", seconds) % {
            "count": seconds
        }
    else:
        text = timesince(since, now, depth=1)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        since.isoformat(),
        local_time(since),
        text,
    )


def pretty(value: Any):
    """Return a JSON value over several lines, what is no JSON as it stands in the row."""
    if isinstance(value, BrokenJSON):
        return format_html(
            '<p class="leasequeue-broken">{}</p><pre>{}</pre>',
            _("This is no JSON:"),
            _fit(value),
        )
    return format_html("<pre>{}</pre>", json_text(value))


def json_text(value: Any) -> str:
    """Return a JSON value as text for people, with its characters as they are."""
    return _fit(json.dumps(value, indent=2, ensure_ascii=False))


def _fit(text: str) -> str:
    # A row may hold escapes such as "\ud800", which no page can be encoded with.
    return clean_text(text, LONGEST_JSON)
