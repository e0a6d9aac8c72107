"""Claim: pending and due -> running on a fresh lease; before it, lease past -> pending.

A locking read with SKIP LOCKED through the claim index, lane by lane in claim order, which
brings all that a run needs, then the update of what it locked; on SQLite under the write
lock. Candidates read without a lock would make all workers want the same rows.

Jobs with which a worker was lost are claimed apart from all others, since they are to run
alone: see docs/reliability.md.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import (
    BigIntegerField,
    Expression,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    SmallIntegerField,
    TextField,
    UUIDField,
    Value,
)
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
_COLUMNS: tuple[str | Expression, ...] = (
    "id",
    "queue",
    "priority",
    "run_at",
    "last_attempted_at",
    "task",
    *(
        ExpressionWrapper(F(name), TextField())
        for name in ("args", "kwargs", "meta", "errors")
    ),
    "attempts",
    "max_attempts",
    "recoveries",
    "lost_alone",
    "claims",
    "round",
)


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


def claim_job(rows: QuerySet, pk: int, token: UUID, worker: str) -> Claimed | None:
    """Take the job of this id for `worker` if it is pending, due or not, and return it.

    Also of a paused queue: whoever asks for one job wants that one. None if it is not
    pending, is blocked by a concurrency limit, or its row is locked by somebody. Raises the
    database's error if passing trouble does not pass within 5 s.
    """
    return db.rerun(
        partial(_claim_job, rows, pk, token, worker), using=rows.db, seconds=RERUN_FOR
    )


def _claim_job(rows, pk, token, worker) -> Claimed | None:
    sent_at = clock.now()
    queue = rows.filter(pk=pk).values_list("queue", flat=True).first()
    if queue is None:
        return None
    given = {"id": pk, "worker": worker, "token": token, "lease": conf.lease(queue)}
    made = _claims_of(_TAKING_ONE.take(rows, 1, [given]), token, worker, sent_at)
    return made[0][2] if made else None


def _claim(rows, selection, limit, token, worker, expired, alone) -> Claim:
    if expired:
        _recover(rows, selection)
    sent_at = clock.now()
    wanted = None if selection.takes_all else selection.named
    lanes = sorted(
        (selection.rank(lane.queue), -lane.priority, lane.due_in, lane)
        for lane in db.lanes(rows.model._meta.db_table, rows.db, wanted)
        if selection.rank(lane.queue) is not None
    )
    waits = [wait for _, _, wait, lane in lanes if lane.suspect == alone]
    due = [lane for _, _, wait, lane in lanes if wait <= 0 and lane.suspect == alone]
    suspects = any(wait <= 0 and lane.suspect for _, _, wait, lane in lanes)
    # A look that finds nothing takes no lock and opens no transaction.
    if not due:
        return Claim([], min(waits, default=None), suspects)
    taken = _TAKING.take(
        rows,
        limit,
        [
            {
                "queue": lane.queue,
                "priority": lane.priority,
                "suspect": lane.suspect,
                "worker": worker,
                "token": token,
                "lease": conf.lease(lane.queue),
            }
            for lane in due
        ],
    )
    made = _claims_of(taken, token, worker, sent_at)
    made.sort(key=partial(_place, selection))
    return Claim([job for _, _, job in made], min(waits), suspects)


def _due_in_lane(rows: QuerySet) -> QuerySet:
    return rows.filter(
        status=Status.PENDING,
        blocked=0,
        suspect=db.Given("suspect", SmallIntegerField()),
        queue=db.Given("queue", TextField()),
        priority=db.Given("priority", SmallIntegerField()),
        run_at__lte=db.DatabaseNow(),
    ).order_by("run_at", "id")


def _marks() -> dict:
    now, worker = db.DatabaseNow(), db.Given("worker", TextField())
    return {
        "claims": F("claims") + 1,
        "worker": worker,
        "worker_ids": Right(
            Concat(F("worker_ids"), worker, Value("\n"), output_field=TextField()),
            WORKER_IDS,
        ),
        "started_at": Coalesce(F("started_at"), now, output_field=UTCDateTimeField()),
        "last_attempted_at": now,
        "processing_token": db.Given("token", UUIDField()),
        "processing_until": db.DatabaseNow(db.Given("lease")),
        "status": Status.RUNNING,
    }


def _pending_of_id(rows: QuerySet) -> QuerySet:
    pk = db.Given("id", BigIntegerField())
    return rows.filter(pk=pk, status=Status.PENDING, blocked=0).order_by("pk")


_TAKING = db.Taking(
    find=_due_in_lane,
    through="leasequeue_claim",
    state={"status": Status.PENDING},
    changes=_marks(),
    columns=_COLUMNS,
)
_TAKING_ONE = db.Taking(
    find=_pending_of_id,
    through="PRIMARY",
    state={"status": Status.PENDING},
    changes=_marks(),
    columns=_COLUMNS,
)


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


def _read_back(rows, token: UUID, worker: str, sent_at: float) -> list[tuple]:
    found = rows.filter(processing_token=token, status=Status.RUNNING)
    return _claims_of(found.values_list(*_COLUMNS), token, worker, sent_at)


def _claims_of(
    found: Iterable[tuple], token: UUID, worker: str, sent_at: float
) -> list[tuple]:
    """Return (priority, run_at, job) of rows in the order of _COLUMNS."""
    made = []
    for pk, queue, priority, run_at, claimed_at, *rest in found:
        values: tuple[Any, ...] = (pk, queue, *rest, worker, token, claimed_at)
        values += (conf.lease(queue), conf.safety_buffer(queue), sent_at, sent_at)
        made.append((priority, run_at, Claimed(*values)))
    return made


def _place(selection: Selection, made: tuple[int, Any, Claimed]) -> tuple:
    priority, run_at, job = made
    return selection.rank(job.queue), -priority, run_at, job.id
