"""How values of a row are shown: always as text, never as markup of their own."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.utils.html import escape, format_html
from django.utils.safestring import mark_safe
from django.utils.timesince import timesince
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_leasequeue.fields import BrokenJSON
from django_leasequeue.payloads import clean_text
from django_leasequeue.recurrence.ticks import EVERY
from django_leasequeue.states import Status
from django_leasequeue.times import local_time as local_time

# Characters of a JSON value on a page. All that a dispatch takes by default is a mebibyte;
# a browser shows a tenth of it without trouble.
LONGEST_JSON = 100_000
# Characters of a name in a row of a list.
LONGEST_NAME = 60
EMPTY = "-"
_BREAKS = re.compile(r"([.:/])(?=\w)")


def column(model: type[Model], name: str, show: Callable[[Any], Any]) -> Any:
    """Return a model field as the admin takes it, shown by `show` unless it is null."""
    field: Any = model._meta.get_field(name)

    @admin.display(description=field.verbose_name)
    def shown(row: Model) -> Any:
        value = getattr(row, name)
        return EMPTY if value is None else show(value)

    shown.__name__ = name  # the admin's class of the page's line
    return shown


def of_row(model: type[Model], name: str, show: Callable[[Any], Any]) -> Any:
    """Return the same, shown by what `show` makes of the whole row."""
    field: Any = model._meta.get_field(name)

    @admin.display(description=field.verbose_name)
    def shown(row: Model) -> Any:
        return show(row)

    shown.__name__ = name
    return shown


def without_empty(
    row: Any,
    fieldsets: Iterable[tuple[Any, Any]],
    optional: Mapping[str, Iterable[str]],
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Return the fieldsets without the optional fields in which the row has nothing.

    `optional`: the columns by which a field is shown: where one of them is not as every row
    starts. A group that is left without fields goes with them.
    """

    def is_shown(field: Any) -> bool:
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


def badge(status: str) -> str:
    """Return a status as a coloured word, also one that this release does not know."""
    known = status in Status.values
    return format_html(
        '<span class="leasequeue-status leasequeue-{}">{}</span>',
        status if known else "unknown",
        Status(status).label if known else status,
    )


def link(url: str, text: Any) -> str:
    """Return a link."""
    return format_html('<a href="{}">{}</a>', url, text)


def short(text: str) -> str:
    """Return a text of a list's column, cut if it is long; the whole is its title.

    It breaks after the dots of a task and the colons of a dedup id, if it must.
    """
    if len(text) <= LONGEST_NAME:
        return _breaking(text)
    cut = _breaking(f"{text[:LONGEST_NAME]}…")
    return format_html('<span title="{}">{}</span>', text, cut)


def _breaking(text: str) -> str:
    # An escaped text has neither a dot nor a colon of its own.
    return mark_safe(_BREAKS.sub(r"\1<wbr>", escape(text)))


def names(value: Any) -> str:
    """Return a list of texts on one line, anything else as JSON."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return _fit(", ".join(value))
    return json_text(value)


def expression(kind: str, text: str) -> str:
    """Return when a schedule fires: its cron line, or its interval."""
    return _("every %(seconds)s s") % {"seconds": text} if kind == EVERY else text


def state_of_schedule(state: str) -> Any:
    """Return the word for a `Schedule.state`."""
    words = {
        "active": _("active"),
        "paused": _("paused"),
        "disabled": _("disabled"),
        "broken": _("broken"),
        "ended": _("ended"),
    }
    return words[state]


def age(since: datetime, now: datetime) -> str:
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


def pretty(value: Any) -> str:
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
