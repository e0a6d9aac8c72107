"""Release: running -> pending, given back by whoever holds the token."""

from uuid import UUID

from django.db.models import QuerySet

from django_leasequeue import db, rounds
from django_leasequeue.conf import conf
from django_leasequeue.states import Status

# Seconds for which a release runs again by itself; if it never comes through, leases end.
RERUN_FOR = 5.0


def release(
    rows: QuerySet,
    token: UUID,
    ids=None,
    death: str | None = None,
    alone: bool = False,
) -> set[int]:
    """Give back the running jobs of `token`, due at once, and return their ids.

    `ids`: only these of them. `death`: None for a stop, and for jobs that had not started,
    which counts nothing; else how the worker that ran them died, which is kept in their
    errors and counts as a recovery. `alone`: whether it ran only this one.
    """
    return db.rerun(
        lambda: _release(rows, token, ids, death, alone),
        using=rows.db,
        seconds=RERUN_FOR,
    )


def _release(rows, token: UUID, ids, death, alone) -> set[int]:
    found = rows.filter(processing_token=token, status=Status.RUNNING).order_by()
    if ids is not None:
        found = found.filter(pk__in=list(ids))
    known = list(found.values_list("pk", flat=True))
    if not known:
        return set()
    released = set()
    with db.write_transaction(rows):
        mine = {"processing_token": token, "status": Status.RUNNING}
        held = db.by_key(rows, known, **mine).order_by("pk")
        for row in db.take(rounds.interrupted(held)):
            changes = rounds.after_interruption(row, death, alone)
            buffer = db.DatabaseNow(conf.safety_buffer(row.queue))
            lasting = db.by_key(rows, [row.pk], **mine, processing_until__gt=buffer)
            if lasting.update(**changes):
                released.add(row.pk)
    return released
