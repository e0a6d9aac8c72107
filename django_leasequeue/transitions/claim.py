"""Claim: pending and due -> running on a fresh lease; before it, lease past -> pending.

A locking read with SKIP LOCKED through the claim index, lane by lane in claim order, which
brings all that a run needs, then the update of what it locked; on SQLite under the write
lock. Candidates read without a lock would make all workers want the same rows.

Jobs with which a worker was lost are claimed apart from all others, since they are to run
alone: see docs/reliability.md.
"""

from collections import Counter
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

from django_leasequeue import clock, db, rounds, slots
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.fields import UTCDateTimeField
from django_leasequeue.selection import Selection
from django_leasequeue.states import AWAITS_SLOT, Status

# Seconds for which a claim runs again by itself; the worker's loop asks again anyway.
RERUN_FOR = 5.0
# Characters kept of the list of workers that claimed a job: some sixty names.
WORKER_IDS = 4000
# Leases that are past and are looked after at once.
_RECOVERED = 500

_RUN_AT = db.Sortable("run_at")
# Each as it is stored. JSON stays text until it is used: a broken one is its job's affair.
_COLUMNS: tuple[str | Expression, ...] = (
    "id",
    "queue",
    "priority",
    _RUN_AT,
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
    "concurrency_key",
    "concurrency_limit",
)


class Claim(NamedTuple):
    """What a claim returns.

    `jobs`: in the order in which they are to be run. `due_in`: seconds until the next
    pending job of these queues and of the kind that was asked for is due, 0 or less if more
    are due now, None if none waits. `suspects`: whether jobs that run alone were due;
    `keyed`: whether jobs with a concurrency key were.
    """

    jobs: list[Claimed]
    due_in: float | None
    suspects: bool = False
    keyed: bool = False


def claim(
    rows: QuerySet[Any],
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
        look = partial(_read_back, rows, selection, token, worker, since)
        made = db.rerun(look, using=rows.db, seconds=RERUN_FOR)
        return Claim([job for job in made if job.is_held], 0.0)
    return db.rerun(
        partial(_claim, rows, selection, limit, token, worker, expired, alone),
        using=rows.db,
        seconds=RERUN_FOR,
    )


def claim_job(rows: QuerySet[Any], pk: int, token: UUID, worker: str) -> Claimed | None:
    """Take the job of this id for `worker` if it is pending, due or not, and return it.

    Also of a paused queue, and before jobs of its concurrency key that wait for longer:
    whoever asks for one job wants that one. None if it is not pending, waits for something
    else than a slot, no slot of its key is free, or its row is locked by somebody. Raises
    the database's error if passing trouble does not pass within 5 s.
    """
    return db.rerun(
        partial(_claim_job, rows, pk, token, worker), using=rows.db, seconds=RERUN_FOR
    )


def _claim_job(
    rows: QuerySet[Any], pk: int, token: UUID, worker: str
) -> Claimed | None:
    sent_at = clock.now()
    queue = rows.filter(pk=pk).values_list("queue", flat=True).first()
    if queue is None:
        return None
    given = {"id": pk, "worker": worker, "token": token, "lease": conf.lease(queue)}
    taken, _ = _through_gate(rows, _TAKING_ONE, 1, [given], marking=False)
    made = _claims_of(taken, Selection(), token, worker, sent_at)
    return made[0] if made else None


def _claim(
    rows: QuerySet[Any],
    selection: Selection,
    limit: int,
    token: UUID,
    worker: str,
    expired: bool,
    alone: bool,
) -> Claim:
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
    steps = [
        {
            "queue": lane.queue,
            "priority": lane.priority,
            "suspect": lane.suspect,
            "worker": worker,
            "token": token,
            "lease": conf.lease(lane.queue),
        }
        for lane in due
    ]
    keyed = False
    if due[0].keyed:
        taken, keyed = _through_gate(rows, _TAKING, limit, steps)
    else:
        taken = _TAKING_WITHOUT_KEY.take(rows, limit, steps)
    made = _claims_of(taken, selection, token, worker, sent_at)
    return Claim(made, min(waits), suspects, keyed)


def _through_gate(
    rows: QuerySet[Any],
    taking: db.Taking,
    limit: int,
    steps: list[dict[str, Any]],
    marking: bool = True,
) -> tuple[list[tuple[Any, ...]], bool]:
    """Take jobs for which there are slots; return them, and whether any had a key."""
    while True:
        gate = slots.Gate(rows, marking)
        try:
            taken = taking.take(rows, limit, steps, partial(_admitted, gate))
        except slots.NoSlotsYet as error:
            slots.make(rows, error.keys)
        else:
            gate.look_again()
            return taken, gate.saw_keys


def _admitted(
    gate: slots.Gate, found: list[tuple[Any, ...]], most: int
) -> tuple[list[tuple[Any, ...]], bool]:
    if not any(row[_KEY] is not None for row in found):
        return found[:most], False
    by_id = {row[0]: row for row in found}
    candidates = [
        slots.Candidate(*(row[place] for place in _CANDIDATE)) for row in found
    ]
    admitted, again = gate.admit(candidates, most)
    return [by_id[job.id] for job in admitted], again


def _due_without_key(rows: QuerySet[Any]) -> QuerySet[Any]:
    return _due_in_lane(rows).filter(concurrency_key__isnull=True)


def _due_in_lane(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.filter(
        status=Status.PENDING,
        blocked=0,
        suspect=db.Given("suspect", SmallIntegerField()),
        queue=db.Given("queue", TextField()),
        priority=db.Given("priority", SmallIntegerField()),
        run_at__lte=db.DatabaseNow(),
    ).order_by("run_at", "id")


def _marks() -> dict[str, Any]:
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


def _pending_of_id(rows: QuerySet[Any]) -> QuerySet[Any]:
    pk = db.Given("id", BigIntegerField())
    free = {"status": Status.PENDING, "blocked__in": [0, AWAITS_SLOT]}
    return rows.filter(pk=pk, **free).order_by("pk")


_CANDIDATE = tuple(
    _COLUMNS.index(name)
    for name in (
        "id",
        "queue",
        "priority",
        _RUN_AT,
        "claims",
        "concurrency_key",
        "concurrency_limit",
    )
)
_KEY = _COLUMNS.index("concurrency_key")

_TAKING = db.Taking(
    find=_due_in_lane,
    through="leasequeue_claim",
    state={"status": Status.PENDING},
    changes=_marks(),
    columns=_COLUMNS,
    now="last_attempted_at",
)
# One statement, where a statement can be enough: no job that needs a slot may be in it.
_TAKING_WITHOUT_KEY = db.Taking(
    find=_due_without_key,
    through="leasequeue_claim",
    state={"status": Status.PENDING},
    changes=_marks(),
    columns=_COLUMNS,
    now="last_attempted_at",
)
_TAKING_ONE = db.Taking(
    find=_pending_of_id,
    through="PRIMARY",
    state={"status": Status.PENDING},
    changes={"blocked": 0, **_marks()},
    columns=_COLUMNS,
    now="last_attempted_at",
)


def _lost(rows: QuerySet[Any], selection: Selection) -> QuerySet[Any]:
    past = rows.filter(status=Status.RUNNING, processing_until__lte=db.DatabaseNow())
    chosen = db.unindexed(_chosen(selection), using=rows.db)
    return past.filter(chosen).order_by("processing_until", "id")


def _recover(rows: QuerySet[Any], selection: Selection) -> None:
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


def _chosen(selection: Selection) -> Q:
    if not selection.takes_all:
        return Q(queue__in=selection.named)
    return ~Q(queue__in=selection.exclude) if selection.exclude else Q()


def _read_back(
    rows: QuerySet[Any], selection: Selection, token: UUID, worker: str, sent_at: float
) -> list[Claimed]:
    found = rows.filter(processing_token=token, status=Status.RUNNING)
    listed = found.values_list(*_COLUMNS)
    return _claims_of(listed, selection, token, worker, sent_at)


def _claims_of(
    found: Iterable[tuple[Any, ...]],
    selection: Selection,
    token: UUID,
    worker: str,
    sent_at: float,
) -> list[Claimed]:
    """Return the jobs of rows in the order of _COLUMNS, sorted as they are to be run."""
    made = []
    of_queues: dict[str, tuple[int | None, float, float]] = {}
    for pk, queue, priority, run_at, claimed_at, *rest, _ in found:
        if queue not in of_queues:
            lease, buffer = conf.lease(queue), conf.safety_buffer(queue)
            of_queues[queue] = selection.rank(queue), lease, buffer
        rank, lease, buffer = of_queues[queue]
        values: tuple[Any, ...] = (pk, queue, *rest, worker, token, claimed_at)
        values += (lease, buffer, sent_at)
        made.append((rank, -priority, run_at, pk, Claimed(*values)))
    made.sort()
    return [job for *_, job in made]
