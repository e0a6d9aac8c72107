"""Release: running -> pending, given back by whoever holds the token."""

from uuid import UUID

from django.db.models import ExpressionWrapper, F, QuerySet

from django_leasequeue import db
from django_leasequeue.conf import conf
from django_leasequeue.errors import describe_death, errors_with
from django_leasequeue.fields import UTCDateTimeField
from django_leasequeue.rounds import new_round
from django_leasequeue.states import Status

# Seconds for which a release runs again by itself; if it never comes through, leases end.
PATIENCE = 5.0


def release(
    rows: QuerySet, token: UUID, ids=None, death: str | None = None
) -> set[int]:
    """Give back the running jobs of `token`, due at once, and return their ids.

    `ids`: only these of them. `death`: None for a stop, which counts nothing; else how the
    worker that ran them died, which is kept in their errors and counts as a recovery.
    """
    return db.rerun(
        lambda: _release(rows, token, ids, death), using=rows.db, seconds=PATIENCE
    )


def _release(rows, token: UUID, ids, death) -> set[int]:
    found = rows.filter(processing_token=token, status=Status.RUNNING).order_by()
    if ids is not None:
        found = found.filter(pk__in=list(ids))
    known = list(found.values_list("pk", flat=True))
    if not known:
        return set()
    released = set()
    with db.write_transaction(rows):
        mine = rows.filter(processing_token=token, status=Status.RUNNING)
        columns = ("pk", "queue", "rerun", "errors", "attempts", "worker", "now")
        for pk, queue, rerun, errors, attempts, worker, now in db.take(
            mine.filter(pk__in=known)
            .annotate(now=ExpressionWrapper(db.DatabaseNow(), UTCDateTimeField()))
            .order_by("pk")
            .values_list(*columns)
        ):
            changes = new_round() if rerun else {}
            if death is not None:
                entry = describe_death(
                    death, attempt=attempts + 1, worker=worker, at=now
                )
                changes["errors"] = errors_with(errors, entry, conf.max_errors)
                changes.setdefault("recoveries", F("recoveries") + 1)
            lasting = mine.filter(
                pk=pk, processing_until__gt=db.DatabaseNow(conf.safety_buffer(queue))
            )
            changes |= {
                "processing_until": None,
                "processing_token": None,
                "status": Status.PENDING,
            }
            if lasting.update(**changes):
                released.add(pk)
    return released
