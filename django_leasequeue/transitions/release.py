"""Release: running -> pending, given back by whoever holds the token."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from django_leasequeue import db, rounds, slots
from django_leasequeue.conf import conf
from django_leasequeue.states import Status

# Seconds for which a release runs again by itself; if it never comes through, leases end.
RERUN_FOR = 5.0


def release(
    rows: QuerySet[Any],
    token: UUID,
    ids: Any = None,
    death: str | None = None,
    alone: bool = False,
    why: str | None = None,
) -> set[int]:
    """Give back the running jobs of `token`, due at once, and return their ids.

    `ids`: only these of them. `death`: None for a stop, and for jobs that had not started,
    which counts nothing; else how the worker that ran them died, which is kept in their
    errors and counts as a recovery. `alone`: whether it ran only this one. `why`: a word
    for why jobs that had started are given back, which their events keep.
    """
    return db.rerun(
        lambda: _release(rows, token, ids, death, alone, why),
        using=rows.db,
        seconds=RERUN_FOR,
    )


def _release(
    rows: QuerySet[Any], token: UUID, ids: Any, death: Any, alone: bool, why: str | None
) -> set[int]:
    found = rows.filter(processing_token=token, status=Status.RUNNING).order_by()
    if ids is not None:
        found = found.filter(pk__in=list(ids))
    known = list(found.values_list("pk", flat=True))
    if not known:
        return set()
    released: set[int] = set()
    with db.write_transaction(rows):
        held = db.by_key(rows, known, **_mine(token)).order_by("pk")
        taken = db.take(rounds.interrupted(held))
        for (buffer, *_), group in _alike(taken, death, why):
            changes = rounds.after_interruption(group[0], death, alone, why)
            ids = {row.pk for row in group}
            released |= _written(rows, token, ids, buffer, changes)
    keys = [row.concurrency_key for row in taken if row.pk in released]
    slots.freed(rows, Counter(key for key in keys if key is not None))
    return released


def _mine(token: UUID) -> dict[str, Any]:
    return {"processing_token": token, "status": Status.RUNNING}


def _alike(found: Iterable[Any], death: str | None, why: str | None) -> Any:
    """Return the rows in groups of which each gets the same; nearly always it is one group."""
    groups = defaultdict(list)
    for row in found:
        plain = death is None and not row.rerun and row.cancel_requested_at is None
        # A claim of several priorities or queues took each at a time of its own.
        since = None if why is None else row.last_attempted_at
        own = None if plain else row.pk
        groups[conf.safety_buffer(row.queue), since, own].append(row)
    return groups.items()


def _written(
    rows: QuerySet[Any],
    token: UUID,
    ids: set[int],
    buffer: float,
    changes: dict[str, Any],
) -> set[int]:
    """Update those of these locked rows whose leases last, and return their ids."""
    until = db.DatabaseNow(buffer)
    lasting = db.by_key(rows, ids, **_mine(token), processing_until__gt=until)
    with db.forced(rows):
        number = lasting.update(**changes)
    if number == len(ids):
        return ids
    left = db.by_key(rows, ids, **_mine(token)).order_by()
    return ids - set(left.values_list("pk", flat=True))
