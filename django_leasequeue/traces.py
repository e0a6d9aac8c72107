"""What happened to a job by somebody's hand or by accident, as its row's `events` keep it.

One JSON object a line, the newest last: added to by the statement that does it, which need
not know what is there. Claims, settles and renewals add none.
"""

import json
from datetime import UTC, datetime
from typing import Any

from django.db.models import F, TextField, Value
from django.db.models.functions import Coalesce, Concat, Right

from django_leasequeue import origin

# Characters kept, some thirty entries; the oldest goes first, a part of it before the rest.
LONGEST = 4000

# Who did it is told by `origin`.
CANCELLED = "cancelled"
CANCEL_REQUESTED = "cancel_requested"
SUPERSEDED = "superseded"
RETRIED = "retried"
MADE_DUE = "made_due"
# Given back unfinished by its worker, and why.
RELEASED = "released"
WORKER_STOPS = "worker_stops"
NEIGHBOUR_TIMEOUT = "neighbour_timeout"
LEASE_LOST = "lease_lost"
BY_HAND = "by_hand"


def noted(kind: str, at: datetime, **facts: Any) -> dict[str, Any]:
    """Return the column by which an update adds an event to its rows.

    `at`: an aware datetime. `facts`: JSON values, short; those that are None are left out.
    """
    told = {name: value for name, value in facts.items() if value is not None}
    entry = {"kind": kind, "at": at.astimezone(UTC).isoformat(), **told}
    line = json.dumps(entry, separators=(",", ":")) + "\n"
    before = Coalesce(F("events"), Value(""), output_field=TextField())
    added = Concat(before, Value(line), output_field=TextField())
    return {"events": Right(added, LONGEST)}


def by_hand(kind: str, at: datetime, **facts: Any) -> dict[str, Any]:
    """Return noted() with whoever does it, as far as `origin` knows."""
    return noted(kind, at, by=origin.current(), **facts)


def read(text: Any) -> list[dict[str, Any]]:
    """Return the entries of a row's events, oldest first, without what is none."""
    found = []
    for line in text.splitlines() if isinstance(text, str) else ():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):  # cut, or written by hand
            continue
        if isinstance(entry, dict) and isinstance(entry.get("kind"), str):
            found.append(entry)
    return found
