"""Looks for what was forgotten: jobs that nobody has called, slots that somebody removed."""

import random
from collections import defaultdict
from typing import Any

from django.db.models import Q, QuerySet

from django_leasequeue import db
from django_leasequeue.slots.calls import call_free
from django_leasequeue.slots.rows import INDEX, KEYS, ORDER, Holder, make, slots_of
from django_leasequeue.states import AWAITS_SLOT, Status

# Seconds after which a look calls once more for the same free slot: workers may be busy.
_CALLED_FOR = 10.0


def look_for_forgotten(rows: QuerySet[Any], after: str = "") -> tuple[str, bool]:
    """Call jobs that nobody has called, as when a worker died on the way from its commit.

    `after`: the key at which the last look ended, of which many may be needed for all.
    Returns where this one ended, "" at the end, and whether there are any keys at all.
    """
    some = list(
        slots_of(rows)
        .filter(key__gt=after)
        .order_by("key")
        .values_list("key", flat=True)[:KEYS]
    )
    last = some[-1] if len(some) == KEYS else ""
    here = Q(key__gt=after, key__lte=last) if last else Q(key__gt=after)
    removed = _without_slots(rows, after, some, last)
    if removed:
        _make_again(rows, removed)
    if some or removed:
        long_ago = db.DatabaseNow(-_CALLED_FOR)
        due = Q(called_at__isnull=True) | Q(called_at__lt=long_ago)
        call_free(rows, due & here, noted=True)
    return last, bool(some or after or removed)


def _without_slots(
    rows: QuerySet[Any], after: str, known: list[str], last: str
) -> set[str]:
    """Return keys for whose slots jobs wait though somebody has removed the row.

    `known`: the keys in this range that have one, "" for `last` being no end of it. Looks at
    the first few hundred that wait, and at as many from anywhere on; in time at all.
    """
    waiting = rows.filter(blocked=AWAITS_SLOT).order_by(
        "concurrency_key", "queue", *ORDER
    )
    found: set[str] = set()
    for start in (after, random.choice([after, *known])):
        beyond = waiting.filter(concurrency_key__gt=start)
        if last:
            beyond = beyond.filter(concurrency_key__lte=last)
        with db.forced(rows, INDEX):
            some = list(beyond.values_list("concurrency_key", flat=True)[:KEYS])
        found |= set(some)
        if len(some) < KEYS:
            break
    # A row may have been made since.
    missing = found.difference(known)
    if not missing:
        return missing
    now = slots_of(rows).filter(key__in=sorted(missing)).values_list("key", flat=True)
    return missing.difference(now)


def _make_again(rows: QuerySet[Any], keys: set[str]) -> None:
    """Make the slots of these keys as they were, for jobs that run with them."""
    running = rows.filter(status=Status.RUNNING, concurrency_key__in=sorted(keys))
    noted: defaultdict[str, list[Holder]] = defaultdict(list)
    for key, pk, claims in running.values_list("concurrency_key", "pk", "claims"):
        noted[key].append((pk, claims))
    make(rows, keys, noted)
