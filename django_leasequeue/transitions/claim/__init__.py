"""Claim: pending and due -> running on a fresh lease; before it, lease past -> pending.

A locking read with SKIP LOCKED through the claim index, lane by lane in claim order, which
brings all that a run needs, then the update of what it locked; on SQLite under the write
lock. Candidates read without a lock would make all workers want the same rows.

Jobs with which a worker was lost are claimed apart from all others, since they are to run
alone: see docs/reliability.md.
"""

from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from django_leasequeue import clock, db, slots
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status
from django_leasequeue.transitions.claim.columns import (
    CANDIDATE,
    COLUMNS,
    KEY,
    claims_of,
)
from django_leasequeue.transitions.claim.recovery import recover
from django_leasequeue.transitions.claim.statements import (
    TAKING,
    TAKING_ONE,
    TAKING_WITHOUT_KEY,
    WORKER_IDS,
)

__all__ = ["WORKER_IDS", "Claim", "claim", "claim_job"]

# Seconds for which a claim runs again by itself; the worker's loop asks again anyway.
RERUN_FOR = 5.0


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
    for leases that are past before. `since`: None for a fresh token; else when a claim with
    it was first sent, by `clock.now()`, of which the answer was lost: then what that one took
    is returned, as far as its leases last, and no more. Raises the database's error if
    passing trouble does not pass within 5 s.
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
    taken, _ = _through_gate(rows, TAKING_ONE, 1, [given], marking=False)
    made = claims_of(taken, Selection(), token, worker, sent_at)
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
        recover(rows, selection)
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
        taken, keyed = _through_gate(rows, TAKING, limit, steps)
    else:
        taken = TAKING_WITHOUT_KEY.take(rows, limit, steps)
    made = claims_of(taken, selection, token, worker, sent_at)
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
    if not any(row[KEY] is not None for row in found):
        return found[:most], False
    by_id = {row[0]: row for row in found}
    candidates = [
        slots.Candidate(*(row[place] for place in CANDIDATE)) for row in found
    ]
    admitted, again = gate.admit(candidates, most)
    return [by_id[job.id] for job in admitted], again


def _read_back(
    rows: QuerySet[Any], selection: Selection, token: UUID, worker: str, sent_at: float
) -> list[Claimed]:
    found = rows.filter(processing_token=token, status=Status.RUNNING)
    listed = found.values_list(*COLUMNS)
    return claims_of(listed, selection, token, worker, sent_at)
