"""The entries of a job's errors, whoever wrote them, ready for the template."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from django_leasequeue.admin.shown import EMPTY, json_text, local_time, pretty
from django_leasequeue.payloads import clean_text

# Longer than what `payloads.describe_error` keeps.
LONGEST_TEXT = 50_000
# What the template has a place for; anything else is shown as JSON.
KNOWN = (
    *("exception_class", "message", "traceback", "attempt", "at", "worker", "times"),
    # The timeline tells them.
    *("started_at", "death"),
)


def show_errors(errors: Any) -> str:
    """Return the errors as HTML, newest first; anything else than a list of them as JSON."""
    if not isinstance(errors, list):
        return pretty(errors)
    if not errors:
        return EMPTY
    entries = [_entry(error) for error in reversed(errors)]
    return render_to_string("admin/leasequeue/errors.html", {"entries": entries})


def _entry(error: Any) -> dict[str, Any]:
    if not isinstance(error, dict):
        return {"rest": json_text(error)}
    texts = {key: _text(error[key]) for key in KNOWN if error.get(key) is not None}
    rest = {key: value for key, value in error.items() if key not in KNOWN}
    return {
        "heading": texts.get("exception_class", ""),
        "message": texts.get("message", ""),
        "facts": " · ".join(_facts(texts)),
        "traceback": texts.get("traceback", ""),
        "rest": json_text(rest) if rest else "",
    }


def _facts(texts: dict[str, str]) -> Iterator[str]:
    if texts.get("at"):
        yield _time(texts["at"])
    if "attempt" in texts:
        yield _("attempt %(number)s") % {"number": texts["attempt"]}
    if texts.get("times", "1") != "1":
        yield _("%(number)s times in a row") % {"number": texts["times"]}
    if texts.get("worker"):
        yield texts["worker"]


def _text(value: Any) -> str:
    return clean_text(
        value if isinstance(value, str) else json_text(value), LONGEST_TEXT
    )


def _time(text: str) -> str:
    try:
        return local_time(datetime.fromisoformat(text))
    except ValueError:  # no time, or one without a zone
        return text
