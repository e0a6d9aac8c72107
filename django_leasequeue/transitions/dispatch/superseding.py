"""Supersede: older jobs of a concurrency key that wait are cancelled by a newer one."""

from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import QuerySet

from django_leasequeue import db, traces
from django_leasequeue.fields import NOW
from django_leasequeue.rounds import cancelled
from django_leasequeue.specs import Prepared
from django_leasequeue.states import AWAITS_GROUP, AWAITS_SLOT, Status

# Seconds for which what waited for the caller's commit runs again through passing trouble.
RERUN_FOR = 10.0


def cancel_older(rows: QuerySet[Any], wanted: list[Prepared], jobs: list[Any]) -> None:
    """Cancel what these new jobs supersede, in the transaction at hand.

    Jobs that somebody has locked are left, since they are about to start or to be cancelled,
    and tried once more after the commit: a rival may have been rolled back, or have
    committed one that this transaction could not see.
    """
    newest: dict[str, int] = {}
    for one, job in zip(wanted, jobs, strict=True):
        if one.supersedes:
            newest[one.values["concurrency_key"]] = job.pk  # they ascend
    if newest:
        _cancel(rows, newest)
        again = partial(_cancel, rows, newest)
        rerun = partial(db.rerun, again, using=rows.db, seconds=RERUN_FOR)
        db.on_commit(rerun, using=rows.db)


def _cancel(rows: QuerySet[Any], newest: dict[str, int]) -> None:
    older: set[int] = set()
    for key, pk in newest.items():
        waiting = rows.filter(
            status=Status.PENDING,
            blocked__in=[0, AWAITS_SLOT, AWAITS_GROUP],
            concurrency_key=key,
            id__lt=pk,
        )
        with db.forced(rows, "leasequeue_keyed"):
            older.update(waiting.order_by().values_list("pk", flat=True))
    if not older:
        return
    with db.write_transaction(rows):
        pending = db.by_key(rows, older, status=Status.PENDING).order_by("pk")
        free = db.take(pending.values_list("pk", NOW))
        if free:
            changes = {**cancelled(), **_traced(newest, free[0][-1])}
            ids = [pk for pk, _ in free]
            db.by_key(rows, ids, status=Status.PENDING).update(**changes)


def _traced(newest: dict[str, int], now: datetime) -> dict[str, Any]:
    # By which of several is not known of each row here.
    job = next(iter(newest.values())) if len(newest) == 1 else None
    return traces.by_hand(traces.SUPERSEDED, now, job=job)
