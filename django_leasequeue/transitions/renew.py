"""Renew: running -> running, with the lease's end moved on, while it is still this token's."""

from collections import defaultdict
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.conf import conf
from django_leasequeue.states import Status

# Seconds for which a renewal runs again by itself; a keeper's next beat comes soon anyway.
RERUN_FOR = 5.0


class Renewal(NamedTuple):
    """What became of the jobs of a token, by id; one that is in no set is held no more.

    `lost`: still marked with the token, but the lease is past or within the safety buffer.
    `busy`: somebody holds the row locked; its lease still lasts, so try again soon.
    """

    renewed: set[int]
    lost: set[int]
    busy: set[int]


class _LeaseEnded(Exception):
    """A lease ran out between the lock and the update: nothing of the group is written."""


def renew(rows: QuerySet[Any], tokens: list[UUID]) -> dict[UUID, Renewal]:
    """Start the leases of all jobs of these tokens anew, each at its queue's length from now.

    Returns what became of them by token. The statements are as many for one job as for all.
    """
    while True:
        try:
            return db.rerun(
                lambda: _renew(rows, tokens), using=rows.db, seconds=RERUN_FOR
            )
        except _LeaseEnded:
            # By the next pass the lock's own condition leaves that job out.
            continue


def _renew(rows: QuerySet[Any], tokens: list[UUID]) -> dict[UUID, Renewal]:
    # Found without a lock, then locked by primary key, as a worker's other writes do it.
    mine = {"processing_token__in": tokens, "status": Status.RUNNING}
    by_terms = defaultdict(set)
    found = rows.filter(**mine).order_by()
    for pk, queue, token in found.values_list("pk", "queue", "processing_token"):
        by_terms[conf.lease(queue), conf.safety_buffer(queue)].add((pk, token))
    results = {token: Renewal(set(), set(), set()) for token in tokens}
    for (lease, buffer), held in by_terms.items():
        ids = sorted(pk for pk, _ in held)
        lasts = {**mine, "processing_until__gt": db.DatabaseNow(buffer)}
        with db.write_transaction(rows):
            lasting = db.by_key(rows, ids, **lasts).order_by("pk")
            # A job may have gone from one of these tokens to another meanwhile.
            locked = set(db.take(lasting.values_list("pk", "processing_token")))
            renewed = db.by_key(rows, sorted(pk for pk, _ in locked), **lasts).update(
                processing_until=db.DatabaseNow(lease)
            )
            if renewed != len(locked):
                raise _LeaseEnded
        missed = held - locked
        busy = missed & _pairs(rows, missed, lasts)
        lost = (missed - busy) & _pairs(rows, missed - busy, mine)
        for pairs, kind in ((locked, 0), (lost, 1), (busy, 2)):
            for pk, token in pairs:
                results[token][kind].add(pk)
    return results


def _pairs(rows: QuerySet[Any], pairs: set[Any], condition: dict[str, Any]) -> set[Any]:
    """Return (id, token) of those of these jobs that meet the condition now."""
    ids = sorted(pk for pk, _ in pairs)
    found = db.by_key(rows, ids, **condition) if ids else rows.none()
    return set(found.values_list("pk", "processing_token"))
