"""The rows of slots, beside those of the jobs that wait for them."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.expressions import Combinable

from django_leasequeue import db
from django_leasequeue.states import AWAITS_SLOT, Status

# Seconds for which a write runs again by itself; a look for what was forgotten comes soon.
RERUN_FOR = 5.0
# Keys in one look for what was forgotten, and in one step of a prune.
KEYS = 500

# The next of a key and queue first. Also the order of an index.
ORDER = ("-priority", "run_at", "id")
INDEX = "leasequeue_awaits_slot"
# Of every job that is told to wait or is called; each write says so.
PENDING = {"status": Status.PENDING}

# A job, and the number of its claim that got the slot.
Holder = tuple[int, int]


def slots_of(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return the rows of slots beside those of jobs. Their model is a floor above."""
    meta = rows.model._meta
    return QuerySet(meta.apps.get_model(meta.app_label, "Slots"), using=rows.db)


def head_of(
    rows: QuerySet[Any], column: str | Combinable, *, last: bool = False
) -> Subquery:
    """Return a column of the first job that waits for a slot of the key of an outer query.

    Or of the `last`, in the order of the index, all of which is named: MySQL would sort.
    """
    waiting = rows.filter(blocked=AWAITS_SLOT, concurrency_key=OuterRef("key"))
    ordered = waiting.order_by("blocked", "concurrency_key", "queue", *ORDER)
    return Subquery((ordered.reverse() if last else ordered).values_list(column)[:1])


def make(
    rows: QuerySet[Any],
    keys: Collection[str],
    holders: Mapping[str, list[Holder]] | None = None,
) -> None:
    """Make the slots of these keys, unless somebody does so at the same time.

    `holders`: who has them, if anybody.
    """
    slots, noted = slots_of(rows), holders or {}
    new = [
        slots.model(key=key, holders=noted.get(key, []), used_at=db.DatabaseNow())
        for key in sorted(keys)
    ]
    create = partial(slots.bulk_create, new, ignore_conflicts=True)
    db.rerun(create, using=rows.db, seconds=RERUN_FOR)
