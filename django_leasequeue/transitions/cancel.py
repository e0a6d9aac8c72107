"""Cancel: pending -> cancelled at once; a running job is asked, and cancelled when it stops."""

from collections import Counter, defaultdict
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from django_leasequeue import db, slots, traces
from django_leasequeue.fields import NOW, UTCDateTimeField
from django_leasequeue.rounds import cancelled
from django_leasequeue.states import Status

# Rows in one transaction: short enough to hold nobody up.
ROWS = 500
# Seconds for which one such transaction runs again through passing trouble.
RERUN_FOR = 10.0


class Cancellation(NamedTuple):
    """What became of the jobs, by id.

    `cancelled`: they were pending. `requested`: they run, and are cancelled as soon as they
    look or end without success. `busy`: somebody holds the row locked; ask again.
    `unchanged`: they had ended before. `gone`: their rows were removed.
    """

    cancelled: set[int]
    requested: set[int]
    busy: set[int]
    unchanged: set[int]
    gone: set[int]


def cancel(rows: QuerySet[Any], ids: list[int]) -> Cancellation:
    """Cancel the jobs of these ids and return what became of each.

    In the caller's transaction the request to a running job is written once it has
    committed, so that a slow caller doesn't hold up the worker.
    """
    done = Cancellation(set(), set(), set(), set(), set())
    for start in range(0, len(ids), ROWS):
        some = sorted(ids[start : start + ROWS])
        part = db.rerun(partial(_cancel, rows, some), using=rows.db, seconds=RERUN_FOR)
        for all_of_kind, of_part in zip(done, part, strict=True):
            all_of_kind.update(of_part)
    ask = partial(_request, rows, sorted(done.requested))
    if not db.on_commit(ask, using=rows.db):
        ask()
    return done


def requested(rows: QuerySet[Any], tokens: list[UUID]) -> dict[UUID, set[int]]:
    """Return the running jobs of these tokens that were asked to stop, by token."""
    asked = rows.filter(
        processing_token__in=tokens,
        status=Status.RUNNING,
        cancel_requested_at__isnull=False,
    )
    found: dict[UUID, set[int]] = defaultdict(set)
    for token, pk in asked.order_by().values_list("processing_token", "pk"):
        found[token].add(pk)
    return found


def _cancel(rows: QuerySet[Any], ids: list[int]) -> Cancellation:
    with db.write_transaction(rows):
        pending = db.by_key(rows, ids, status=Status.PENDING)
        found = db.take(
            pending.order_by("pk").values_list("pk", "concurrency_key", NOW)
        )
        taken = {pk for pk, *_ in found}
        if taken:
            now = found[0][-1]
            db.by_key(rows, taken, status=Status.PENDING).update(**_cancelled(now))
    # Others may have waited for it to try first.
    keys = Counter(key for _, key, _ in found if key is not None)
    slots.freed_on_commit(rows, keys)
    others = dict(rows.filter(pk__in=set(ids) - taken).values_list("pk", "status"))
    running = {pk for pk, status in others.items() if status == Status.RUNNING}
    busy = {pk for pk, status in others.items() if status == Status.PENDING}
    ended = others.keys() - running - busy
    return Cancellation(taken, running, busy, ended, set(ids) - taken - others.keys())


def _request(rows: QuerySet[Any], ids: list[int]) -> None:
    """Ask the running jobs of these ids, and cancel those that wait again meanwhile."""
    for start in range(0, len(ids), ROWS):
        some = ids[start : start + ROWS]
        db.rerun(partial(_ask, rows, some), using=rows.db, seconds=RERUN_FOR)


def _ask(rows: QuerySet[Any], ids: list[int]) -> None:
    # Under the lock, which is waited for: a job may be on its way back to pending, or from
    # there into somebody's claim, and by a look alone it would be missed in between.
    unfinished = Q(status__in=[Status.PENDING, Status.RUNNING])
    statuses = rows.values_list("pk", "status", "concurrency_key", NOW)
    keys: Counter[str] = Counter()
    with db.write_transaction(rows), db.bounded_transaction(rows.db, RERUN_FOR):
        found = db.wait_for_unchanged(statuses, ids, unfinished)
        waiting = [pk for pk, status, *_ in found if status == Status.PENDING]
        running = [pk for pk, status, *_ in found if status == Status.RUNNING]
        now: Any = found[0][-1] if found else None
        if waiting:
            changes = _cancelled(now)
            db.by_key(rows, waiting, status=Status.PENDING).update(**changes)
            keys.update(key for pk, _, key, _ in found if pk in waiting and key)
        if running:
            changes = _asked(now)
            db.by_key(rows, running, status=Status.RUNNING).update(**changes)
    slots.freed_on_commit(rows, keys)


def _cancelled(now: datetime) -> dict[str, Any]:
    return {**cancelled(), **traces.by_hand(traces.CANCELLED, now)}


def _asked(now: datetime) -> dict[str, Any]:
    since = Coalesce(
        F("cancel_requested_at"), db.DatabaseNow(), output_field=UTCDateTimeField()
    )
    return {
        "cancel_requested_at": since,
        "rerun": False,
        "next_args": None,
        "next_kwargs": None,
        **traces.by_hand(traces.CANCEL_REQUESTED, now),
    }
