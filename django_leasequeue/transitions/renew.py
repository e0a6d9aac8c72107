"""Renew: running -> running, with the lease's end moved on, while it is still this token's."""

from collections import defaultdict
from typing import NamedTuple
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


def renew(rows: QuerySet, token: UUID) -> Renewal:
    """Start the lease of every job of `token` anew, at its queue's length from now."""
    while True:
        try:
            return db.rerun(
                lambda: _renew(rows, token), using=rows.db, seconds=RERUN_FOR
            )
        except _LeaseEnded:
            # By the next pass the lock's own condition leaves that job out.
            continue


def _renew(rows, token: UUID) -> Renewal:
    # Found without a lock, then locked by primary key, as a worker's other writes do it.
    mine = {"processing_token": token, "status": Status.RUNNING}
    by_terms = defaultdict(list)
    for pk, queue in rows.filter(**mine).order_by().values_list("pk", "queue"):
        by_terms[conf.lease(queue), conf.safety_buffer(queue)].append(pk)
    result = Renewal(set(), set(), set())
    for (lease, buffer), ids in by_terms.items():
        lasts = {**mine, "processing_until__gt": db.DatabaseNow(buffer)}
        with db.write_transaction(rows):
            lasting = db.by_key(rows, ids, **lasts).order_by("pk")
            locked = db.take(lasting.values_list("pk", flat=True))
            renewed = db.by_key(rows, locked, **lasts).update(
                processing_until=db.DatabaseNow(lease)
            )
            if renewed != len(locked):
                raise _LeaseEnded
        missed = set(ids).difference(locked)
        busy = _ids(rows, missed, lasts)
        result.renewed.update(locked)
        result.busy.update(busy)
        result.lost.update(_ids(rows, missed - busy, mine))
    return result


def _ids(rows, ids: set[int], condition: dict) -> set[int]:
    found = db.by_key(rows, ids, **condition) if ids else rows.none()
    return set(found.values_list("pk", flat=True))
