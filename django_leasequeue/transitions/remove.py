"""Remove: pending or finished -> no row, because a person wants it.

A job that runs is left to its worker, and one whose dedup window lasts to its window. Rows
are locked before they are deleted, and looked at once more under the lock, so that a job
which a worker is about to claim is either claimed or removed.
"""

from collections import Counter
from typing import Any, NamedTuple

from django.db.models import BooleanField, Case, Q, QuerySet, Value, When

from django_leasequeue import db, slots
from django_leasequeue.retention import no_window_lasts
from django_leasequeue.states import FINAL, Status

# Rows in one transaction: short enough to hold nobody up.
ROWS = 500
# Seconds for which one such transaction runs again through passing trouble.
RERUN_FOR = 10.0

_REMOVABLE = sorted({Status.PENDING, *FINAL})


class Removal(NamedTuple):
    """What became of the jobs, by id.

    `removed`: their rows are gone by this. `running`: a worker has them. `in_window`: their
    dedup window lasts. `busy`: somebody holds the row locked, or rows of another app keep
    it; ask again. `gone`: their rows were removed before.
    """

    removed: set[int]
    running: set[int]
    in_window: set[int]
    busy: set[int]
    gone: set[int]


def remove(rows: QuerySet[Any], ids: list[int]) -> Removal:
    """Remove the rows of the jobs of these ids that don't run; return what became of each."""
    done = Removal(set(), set(), set(), set(), set())
    for start in range(0, len(ids), ROWS):
        part = _remove(rows, sorted(ids[start : start + ROWS]))
        for all_of_kind, of_part in zip(done, part, strict=True):
            all_of_kind.update(of_part)
    return done


def _remove(rows: QuerySet[Any], ids: list[int]) -> Removal:
    waiting = rows.filter(pk__in=ids, status=Status.PENDING)
    keyed = waiting.filter(concurrency_key__isnull=False).order_by()
    keys = dict(keyed.values_list("pk", "concurrency_key"))
    free = Q(status__in=_REMOVABLE) & no_window_lasts()
    removed = db.remove(rows, ids, free, RERUN_FOR)
    # Others may have waited for it to try first.
    slots.freed_on_commit(rows, Counter(keys[pk] for pk in removed if pk in keys))
    others = set(ids) - removed
    left = _left(rows, others) if others else {}
    running = {pk for pk, (status, _) in left.items() if status == Status.RUNNING}
    in_window = {pk for pk, (_, is_free) in left.items() if not is_free} - running
    return Removal(
        removed,
        running,
        in_window,
        left.keys() - running - in_window,
        others - left.keys(),
    )


def _left(rows: QuerySet[Any], ids: set[int]) -> dict[int, tuple[str, bool]]:
    """Return the status of each row that is still there, and whether no window keeps it."""
    is_free = Case(
        When(no_window_lasts(), then=Value(True)),
        default=Value(False),
        output_field=BooleanField(),
    )
    found = rows.filter(pk__in=ids).annotate(is_free=is_free).order_by()
    return {
        pk: (status, free)
        for pk, status, free in found.values_list("pk", "status", "is_free")
    }
