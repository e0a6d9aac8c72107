"""Slots that nobody uses any more are removed."""

from functools import partial
from typing import Any

from django.db.models import Q, QuerySet

from django_leasequeue import db
from django_leasequeue.slots.rows import INDEX, KEYS, RERUN_FOR, head_of, slots_of
from django_leasequeue.slots.running import read_holders, still_running

# Seconds after which slots that nobody has used are removed.
_UNUSED = 3600.0


def prune(rows: QuerySet[Any]) -> int:
    """Remove slots that nobody uses any more; return how many."""
    removed = 0
    slots = slots_of(rows)
    unused = Q(used_at__lt=db.DatabaseNow(-_UNUSED))
    while True:
        old = (
            slots.filter(unused).annotate(head=head_of(rows, "pk")).order_by("used_at")
        )
        old = old.filter(head__isnull=True)
        with db.forced(rows, INDEX):
            keys = list(old.values_list("key", flat=True)[:KEYS])
        step = partial(_prune, rows, keys, unused)
        removed += db.rerun(step, using=rows.db, seconds=RERUN_FOR)
        if len(keys) < KEYS:
            return removed


def _prune(rows: QuerySet[Any], keys: list[str], unused: Q) -> int:
    slots = slots_of(rows)
    with db.write_transaction(rows):
        mine = slots.filter(unused, key__in=keys).order_by("key")
        held = dict(db.take(mine.values_list("key", "holders"), "PRIMARY"))
        live = still_running(rows, held.values(), locking=True)
        dead = [key for key in held if live.isdisjoint(read_holders(held[key]))]
        with db.forced(slots):
            slots.filter(key__in=[*held.keys() - dead]).update(used_at=db.DatabaseNow())
            return db.delete(slots.filter(key__in=dead)) if dead else 0
