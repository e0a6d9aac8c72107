"""Renew: running -> running, with the lease's end moved on, while it is still this token's."""

from collections import defaultdict
from typing import NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.conf import conf
from django_leasequeue.states import Status

# Seconds for which a renewal runs again by itself; a keeper's next beat comes soon anyway.
PATIENCE = 5.0


class Renewal(NamedTuple):
    """What became of the jobs of a token, by id; one that is in no set is held no more.

    `lost`: still marked with the token, but the lease is past or within the safety buffer.
    `busy`: somebody holds the row locked; its lease still lasts, so try again soon.
    """

    renewed: set[int]
    lost: set[int]
    busy: set[int]


def renew(rows: QuerySet, token: UUID) -> Renewal:
    """Start the lease of every job of `token` anew, at its queue's length from now."""
    return db.rerun(lambda: _renew(rows, token), using=rows.db, seconds=PATIENCE)


def _renew(rows, token: UUID) -> Renewal:
    # Found without a lock, then locked by primary key, as a worker's other writes do it.
    held = rows.filter(processing_token=token, status=Status.RUNNING).order_by()
    by_terms = defaultdict(list)
    for pk, queue in held.values_list("pk", "queue"):
        by_terms[conf.lease(queue), conf.safety_buffer(queue)].append(pk)
    result = Renewal(set(), set(), set())
    for (lease, buffer), ids in by_terms.items():
        lasting = db.by_key(
            rows,
            ids,
            processing_token=token,
            status=Status.RUNNING,
            processing_until__gt=db.DatabaseNow(buffer),
        )
        with db.write_transaction(rows):
            locked = db.take(lasting.order_by("pk").values_list("pk", flat=True))
            if locked:
                lasting.filter(pk__in=locked).update(
                    processing_until=db.DatabaseNow(lease)
                )
        missed = set(ids).difference(locked)
        still = (
            set(lasting.filter(pk__in=missed).values_list("pk", flat=True))
            if missed
            else set()
        )
        result.renewed.update(locked)
        result.busy.update(still)
        result.lost.update(missed - still)
    return result
