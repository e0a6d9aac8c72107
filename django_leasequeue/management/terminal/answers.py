"""Answers for machines."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


def as_json(value: Any) -> str:
    """Return the value as a JSON document; instants are ISO 8601, spans are seconds.

    ASCII alone, so that no terminal obeys any of it and every one can show it.
    """
    return json.dumps(value, indent=2, default=_plain)


def told(error: BaseException) -> str:
    """Return an error's message and its notes, as sentences of one text if there are any."""
    said, notes = str(error).strip(), getattr(error, "__notes__", ())
    if notes and not said.endswith((".", "!", "?")):
        said += "."
    return " ".join([said, *notes])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON.")
