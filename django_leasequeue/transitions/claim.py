"""Claim: pending and due -> running on a fresh lease; before it, lease past -> pending.

A locking read with SKIP LOCKED through the claim index, lane by lane in claim order, which
brings all that a run needs, then the update of what it locked; on SQLite under the write
lock. Candidates read without a lock would make all workers want the same rows.

Jobs with which a worker was lost are claimed apart from all others, since they are to run
alone: see docs/reliability.md.
"""

from collections import defaultdict
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import ExpressionWrapper, F, Q, QuerySet, TextField, Value
from django.db.models.functions import Coalesce, Concat, Right

from django_leasequeue import clock, db, rounds
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.fields import UTCDateTimeField
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status

# Seconds for which a claim runs again by itself; the worker's loop asks again anyway.
RERUN_FOR = 5.0
# Characters kept of the list of workers that claimed a job: some sixty names.
WORKER_IDS = 4000
# Leases that are past and are looked after at once.
_RECOVERED = 500

# Each as it is stored. JSON stays text until it is used: a broken one is its job's affair.
_TEXTS = {
    f"{name}_text": ExpressionWrapper(F(name), TextField())
    for name in ("args", "kwargs", "meta", "errors")
}
_COLUMNS = (
    "id",
    "queue",
    "task",
    *_TEXTS,
    "attempts",
    "max_attempts",
    "recoveries",
    "lost_alone",
    "claims",
    "round",
)
_PLACE = ("priority", "run_at")


class Claim(NamedTuple):
    """What a claim returns.

    `jobs`: in the order in which they are to be run. `due_in`: seconds until the next
    pending job of these queues and of the kind that was asked for is due, 0 or less if more
    are due now, None if none waits. `suspects`: whether jobs that run alone were due.
    """

    jobs: list[Claimed]
    due_in: float | None
    suspects: bool = False


def claim(
    rows: QuerySet,
    selection: Selection,
    limit: int,
    token: UUID,
    worker: str,
    expired: bool,
    since: float | None,
    alone: bool,
) -> Claim:
    """Take up to `limit` jobs for `worker` under `token`, and return them.

    `alone`: whether to take those that run alone, or all others. `expired`: whether to look
    for leases that are past before. `since`: None for a fresh
    token; else when a claim with it was first sent, by `clock.now()`, of which the answer
    was lost: then what that one took is returned, as far as its leases last, and no more.
    Raises the database's error if passing trouble does not pass within 5 s.
    """
    if since is not None:
        look = partial(_read_back, rows, token, worker, since)
        made = db.rerun(look, using=rows.db, seconds=RERUN_FOR)
        made.sort(key=partial(_place, selection))
        return Claim([job for _, _, job in made if job.is_held], 0.0)
    return db.rerun(
        partial(_claim, rows, selection, limit, token, worker, expired, alone),
        using=rows.db,
        seconds=RERUN_FOR,
    )


def _claim(rows, selection, limit, token, worker, expired, alone) -> Claim:
    if expired:
        _recover(rows, selection)
    sent_at = clock.now()
    lanes = sorted(
        (selection.rank(lane.queue), -lane.priority, lane.due_in, lane)
        for lane in db.lanes(rows.model._meta.db_table, rows.db)
        if selection.rank(lane.queue) is not None
    )
    waits = [wait for _, _, wait, lane in lanes if lane.suspect == alone]
    due = [lane for _, _, wait, lane in lanes if wait <= 0 and lane.suspect == alone]
    suspects = any(wait <= 0 and lane.suspect for _, _, wait, lane in lanes)
    # A look that finds nothing takes no lock and opens no transaction.
    if not due:
        return Claim([], min(waits, default=None), suspects)
    with db.write_transaction(rows):
        found: list[tuple] = []
        for lane in due:
            if len(found) < limit:
                found += _take_due(rows, lane, limit - len(found))
        if _mark(rows, found, token, worker) == len(found):
            made = _claims_of(found, token, worker, sent_at, more=1)
        else:
            made = _read_back(rows, token, worker, sent_at)
    made.sort(key=partial(_place, selection))
    return Claim([job for _, _, job in made], min(waits), suspects)


def _take_due(rows, lane: db.Lane, limit: int) -> list[tuple]:
    waiting = {"status": Status.PENDING, "blocked": 0, "suspect": lane.suspect}
    due = rows.filter(
        **waiting,
        queue=lane.queue,
        priority=lane.priority,
        run_at__lte=db.DatabaseNow(),
    ).order_by("run_at", "id")
    return db.take(_shown(due)[:limit], through="leasequeue_claim")


def _mark(rows, found: list[tuple], token: UUID, worker: str) -> int:
    """Make the rows that are locked running; return how many are."""
    by_queue = defaultdict(list)
    for _, _, _, pk, queue, *_ in found:
        by_queue[queue].append(pk)
    marked = 0
    for queue, ids in by_queue.items():
        mine = db.by_key(rows, ids, status=Status.PENDING)
        marked += mine.update(**_marks(queue, token, worker))
    return marked


def _lost(rows, selection: Selection):
    past = rows.filter(status=Status.RUNNING, processing_until__lte=db.DatabaseNow())
    chosen = db.unindexed(_chosen(selection), using=rows.db)
    return past.filter(chosen).order_by("processing_until", "id")


def _recover(rows, selection: Selection) -> None:
    """Make jobs pending whose lease is past, or end those that were to be cancelled."""
    lost = _lost(rows, selection)
    if not lost[:1]:
        return
    found = rounds.interrupted(lost)[:_RECOVERED]
    with db.write_transaction(rows):
        for row in db.take(found, through="leasequeue_lease"):
            how = "its lease ended without a renewal"
            changes = rounds.after_interruption(row, how, alone=bool(row.suspect))
            same = rows.filter(pk=row.pk, processing_token=row.processing_token)
            same.update(**changes)


def _chosen(selection: Selection) -> Q:
    if not selection.takes_all:
        return Q(queue__in=selection.named)
    return ~Q(queue__in=selection.exclude) if selection.exclude else Q()


def _marks(queue: str, token: UUID, worker: str) -> dict:
    now = db.DatabaseNow()
    return {
        "claims": F("claims") + 1,
        "worker": worker,
        "worker_ids": Right(
            Concat(F("worker_ids"), Value(f"{worker}\n"), output_field=TextField()),
            WORKER_IDS,
        ),
        "started_at": Coalesce(F("started_at"), now, output_field=UTCDateTimeField()),
        "last_attempted_at": now,
        "processing_token": token,
        "processing_until": db.DatabaseNow(conf.lease(queue)),
        "status": Status.RUNNING,
    }


def _read_back(rows, token: UUID, worker: str, sent_at: float) -> list[tuple]:
    held = rows.filter(processing_token=token, status=Status.RUNNING)
    found = _shown(held, F("last_attempted_at"))
    return _claims_of(list(found), token, worker, sent_at)


def _shown(rows: QuerySet, now: Any = None) -> QuerySet:
    now = ExpressionWrapper(now or db.DatabaseNow(), UTCDateTimeField())
    return rows.annotate(now=now, **_TEXTS).values_list("now", *_PLACE, *_COLUMNS)


def _claims_of(
    found: list[tuple], token: UUID, worker: str, sent_at: float, more: int = 0
) -> list[tuple]:
    """Return (priority, run_at, job) of rows; `more`: what their `claims` will have grown by."""
    times = {queue: _times(queue) for queue in {row[4] for row in found}}
    made = []
    for now, priority, run_at, pk, queue, *values, claims, round in found:
        given: tuple[Any, ...] = (pk, queue, *values, claims + more, round)
        given += (worker, token, now, *times[queue], sent_at, sent_at)
        made.append((priority, run_at, Claimed(*given)))
    return made


def _times(queue: str) -> tuple[float, float]:
    return conf.lease(queue), conf.safety_buffer(queue)


def _place(selection: Selection, made: tuple[int, Any, Claimed]) -> tuple:
    priority, run_at, job = made
    return selection.rank(job.queue), -priority, run_at, job.id
