"""Recover: lease past -> pending, or the end of a job that was to be cancelled."""

from collections import Counter
from typing import Any

from django.db.models import Q, QuerySet

from django_leasequeue import db, rounds, slots
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status

# Leases that are past and are looked after at once.
_RECOVERED = 500


def recover(rows: QuerySet[Any], selection: Selection) -> None:
    """Make jobs pending whose lease is past, or end those that were to be cancelled."""
    lost = _lost(rows, selection)
    if not lost[:1]:
        return
    found = rounds.interrupted(lost)[:_RECOVERED]
    freed: Counter[str] = Counter()
    with db.write_transaction(rows):
        for row in db.take(found, through="leasequeue_lease"):
            freed.update({row.concurrency_key} - {None})
            how = "its lease ended without a renewal"
            changes = rounds.after_interruption(row, how, alone=bool(row.suspect))
            same = rows.filter(pk=row.pk, processing_token=row.processing_token)
            same.update(**changes)
    slots.freed(rows, freed)


def _lost(rows: QuerySet[Any], selection: Selection) -> QuerySet[Any]:
    past = rows.filter(status=Status.RUNNING, processing_until__lte=db.DatabaseNow())
    chosen = db.unindexed(_chosen(selection), using=rows.db)
    return past.filter(chosen).order_by("processing_until", "id")


def _chosen(selection: Selection) -> Q:
    if not selection.takes_all:
        return Q(queue__in=selection.named)
    return ~Q(queue__in=selection.exclude) if selection.exclude else Q()
