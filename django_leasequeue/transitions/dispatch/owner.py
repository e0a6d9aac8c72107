"""The job that a dedup id belongs to: finding it, and whether it is still the one."""

from typing import Any

from django.db.models import Q, QuerySet

from django_leasequeue import db, registry
from django_leasequeue.exceptions import DedupConflict, UnknownTask
from django_leasequeue.ownership import released, with_window
from django_leasequeue.specs import Prepared
from django_leasequeue.states import FINAL


def find(rows: QuerySet[Any], wanted: Prepared, *, locking: bool = False) -> Any:
    """Return the job that has the wanted id, whether it still holds it or not; else None.

    `locking`: by a locking read, which on InnoDB sees rows that the transaction's snapshot
    hides.
    """
    found = db.prepared(_find_locking if locking else _find, rows)
    same = found(queue=wanted.values["queue"], dedup_id=wanted.rules.id)
    return next(iter(same), None)


def _find(rows: QuerySet[Any], queue: str, dedup_id: str) -> QuerySet[Any]:
    return with_window(rows.filter(queue=queue, dedup_id=dedup_id)).order_by()


def _find_locking(rows: QuerySet[Any], queue: str, dedup_id: str) -> QuerySet[Any]:
    return _find(rows, queue, dedup_id).select_for_update()


def same_id(owner: Any) -> Q:
    """The condition that a row still has the id that the owner had when it was read."""
    return Q(queue=owner.queue, dedup_id=owner.dedup_id)


def unchanged(owner: Any) -> Q:
    """The condition that, besides, it is in the same status, and was not run meanwhile."""
    return same_id(owner) & Q(status=owner.status, claims=owner.claims)


def still_holding(owner: Any) -> Q:
    """The condition that the holder is unchanged and holds its id even now."""
    same = unchanged(owner)
    if owner.dedup_hold == "removed":
        return same
    if owner.dedup_hold == "finished" and owner.status not in FINAL:
        return same
    return same & Q(dedup_until__gt=db.DatabaseNow())


def release_ids(rows: QuerySet[Any], ids: list[int]) -> None:
    """Take their dedup ids from jobs that hold them no longer. The caller has them locked."""
    with db.forced(rows):
        db.by_key(rows, ids).update(**released())


def check_task(owner: Any, wanted: Prepared) -> None:
    """Raise DedupConflict if the holder is a job of another task."""
    try:
        name = registry.get(owner.task).name
    except UnknownTask:
        name = owner.task
    if name != wanted.values["task"]:
        raise DedupConflict(
            wanted.rules.id,
            wanted.values["queue"],
            wanted.values["task"],
            owner.pk,
            owner.task,
        )
