"""Settle: running -> what the run's outcome says, refused once the lease is not its own.

The one write that most queues leave unguarded. A row is changed only while its token is the
claim's and more than the safety buffer is left of its lease, by the database's clock. One
that is not to be kept at all is removed under the same guard.
"""

from collections import defaultdict
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, assert_never

from django.db import IntegrityError
from django.db.models import (
    BooleanField,
    Case,
    F,
    Q,
    QuerySet,
    TextField,
    Value,
    When,
)

from django_leasequeue import db, registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.errors import errors_with
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.retention import Rule, no_window_lasts
from django_leasequeue.rounds import UNSUSPECTED, cancelled, new_round
from django_leasequeue.states import FINAL, Status

# Seconds for which a settle runs again by itself; the settler tries until the lease ends.
RERUN_FOR = 5.0


_NOW = ("pk", "status", "claims", "processing_token", "last_token", "worker", "lasts")


class Verdict(Enum):
    """What became of one outcome."""

    WRITTEN = "written"
    # Never to be written: another claim, a final state, no row, or the lease is past.
    LOST = "lost"
    # Somebody holds the row locked; the lease still lasts, so try again.
    BUSY = "busy"


class Settled(NamedTuple):
    """A verdict; for a lost one `holder` names the worker of the row now, and `why`."""

    verdict: Verdict
    holder: str | None = None
    why: str = ""


class Asked(NamedTuple):
    """What others asked of a job while it ran, and whether its row may go at once."""

    rerun: bool
    cancel: bool
    may_go: bool


class _LeaseEnded(Exception):
    """A lease ran out between the lock and the update: nothing of the group is written."""


def settle(
    rows: QuerySet,
    finished: list[tuple[Claimed, Outcome]],
    with_writes: bool = False,
) -> list[Settled]:
    """Write outcomes, one transaction for all, and return what became of each, in order.

    `with_writes`: the transaction at hand is the atomic task's own. Where that keeps every
    other writer out (SQLite) the token alone is the guard: no renewal could come through,
    and no claim either. Raises the database's error if passing trouble does not pass within
    5 s.
    """
    alone = with_writes and db.keeps_others_out(rows.db)
    removing = True
    while True:
        try:
            return db.rerun(
                partial(_settle, rows, finished, alone, removing),
                using=rows.db,
                seconds=RERUN_FOR,
            )
        except _LeaseEnded:
            # By the next pass the lock's own condition leaves that job out.
            continue
        except IntegrityError:
            # Perhaps a foreign key that Django knows nothing of; then the row stays.
            if not removing or with_writes:
                raise
            removing = False


def _settle(rows, finished, alone: bool, removing: bool) -> list[Settled]:
    written: set[tuple[int, int]] = set()
    with db.write_transaction(rows):
        held = _lock(rows, [job for job, _ in finished], alone)
        for columns, jobs in _grouped(finished, held):
            removable = [job for job in jobs if removing and held[job.fence].may_go]
            leaving = _leaving(rows, removable, columns["status"])
            _remove(rows, leaving, alone)
            gone = {job.fence for job in leaving}
            stay = [job for job in jobs if job.fence not in gone]
            _write(rows, columns, stay, alone)
            written.update(job.fence for job in jobs)
    missed = [job for job, _ in finished if job.fence not in written]
    verdicts = _explain(rows, missed) if missed else {}
    done = Settled(Verdict.WRITTEN)
    return [verdicts.get(job.fence, done) for job, _ in finished]


def _lasting(rows, jobs: list[Claimed], alone: bool = False):
    """Rows of jobs of one buffer whose lease is still one of theirs."""
    condition: dict[str, Any] = {
        "processing_token__in": list({job.token for job in jobs}),
        "status": Status.RUNNING,
    }
    if not alone:
        condition["processing_until__gt"] = db.DatabaseNow(jobs[0].buffer)
    return db.by_key(rows, sorted(job.id for job in jobs), **condition)


def _lock(rows, jobs: list[Claimed], alone: bool) -> dict[tuple[int, int], Asked]:
    """Return the jobs that are still ours, locked by primary key, with what was asked of them.

    By their fences: a row is ours if its token is one of ours and the number of its claim is
    the job's, which no two tokens share.
    """
    by_buffer = defaultdict(list)
    for job in jobs:
        by_buffer[job.buffer].append(job)
    free = Q(dedup_id__isnull=True)
    if db.keys_go_freely(rows.db):
        free = no_window_lasts()
    may_go = Case(
        When(free, then=Value(True)), default=Value(False), output_field=BooleanField()
    )
    held = {}
    for some in by_buffer.values():
        for pk, claims, rerun, cancel_requested_at, is_free in db.take(
            _lasting(rows, some, alone)
            .order_by("pk")
            .values_list("pk", "claims", "rerun", "cancel_requested_at", may_go)
        ):
            held[pk, claims] = Asked(rerun, cancel_requested_at is not None, is_free)
    return held


def _grouped(finished, held):
    """Yield (columns, jobs): jobs of which the same is to be written share one update."""
    groups = defaultdict(list)
    for job, outcome in finished:
        if job.fence in held:
            same = outcome if isinstance(outcome, Succeeded) else job.fence
            groups[job.buffer, held[job.fence], same].append((job, outcome))
    for (_, asked, _), group in groups.items():
        yield _columns(*group[0], asked), [job for job, _ in group]


def _leaving(rows, jobs: list[Claimed], status: Status) -> list[Claimed]:
    """Return those of which no row is kept once they are in this status."""
    if status not in FINAL:
        return []
    leaving = [job for job in jobs if _rule(job, status).removes_at_once]
    return [] if leaving and db.others_see_deletes(rows.model) else leaving


def _rule(job: Claimed, status: Status) -> Rule:
    try:
        registry.get(job.task)
    except UnknownTask:
        # Known elsewhere it may have rules of its own, which prune goes by.
        return Rule()
    return registry.retention(job.task, job.queue)[status]


def _remove(rows, jobs: list[Claimed], alone: bool) -> None:
    if not jobs:
        return
    for job in jobs:
        job.removal_sent = True
    with db.forced(rows):
        if db.delete(_lasting(rows, jobs, alone)) != len(jobs):
            raise _LeaseEnded


def _write(rows, columns: dict, jobs: list[Claimed], alone: bool) -> None:
    if jobs and _lasting(rows, jobs, alone).update(**columns) != len(jobs):
        raise _LeaseEnded


def _columns(job: Claimed, outcome: Outcome, asked: Asked) -> dict:
    columns = _by_outcome(job, outcome)
    # A dispatch that asked for another run comes first: its work must not be lost. A cancel
    # that the run did not look for still keeps the job from going back to pending.
    if asked.rerun:
        # Of the outcome only the error is kept. The round's own columns come first, since
        # MySQL would read waiting arguments that another column's turn had emptied.
        kept = {name: columns[name] for name in ("errors",) if name in columns}
        columns = {**new_round(), **kept, "status": Status.PENDING}
    elif asked.cancel and isinstance(outcome, RetryLater | Snoozed | Released):
        columns = {**columns, **cancelled()}
        columns.pop("run_at", None)
    # In this order: MySQL reads the token before it is emptied.
    return columns | {
        "last_token": F("processing_token"),
        "processing_until": None,
        "processing_token": None,
    }


def _by_outcome(job: Claimed, outcome: Outcome) -> dict:
    match outcome:
        case Succeeded(result):
            text = None if result is None else Value(result, output_field=TextField())
            return {
                "attempts": F("attempts") + 1,
                "result": text,
                **_final(Status.SUCCEEDED),
            }
        case Failed(error, counted):
            return {**_failure(job, error, counted), **_final(Status.FAILED)}
        case RetryLater(delay, error, counted):
            return {**_failure(job, error, counted), **_pending(delay)}
        case Snoozed(delay):
            return _pending(delay)
        case Cancelled():
            return cancelled()
        case Released():
            return {"status": Status.PENDING}
        case _:
            assert_never(outcome)


def _failure(job: Claimed, error: dict, counted: bool) -> dict:
    return {
        "attempts": F("attempts") + int(counted),
        "errors": errors_with(job.errors, error, conf.max_errors),
    }


def _final(status: Status) -> dict:
    return {"finished_at": db.DatabaseNow(), "status": status}


def _pending(delay) -> dict:
    return {"run_at": db.DatabaseNow(delay), **UNSUSPECTED, "status": Status.PENDING}


def _explain(rows, missed: list[Claimed]) -> dict[tuple[int, int], Settled]:
    """Read the rows that were missed, without a lock, and tell busy ones from lost ones."""
    by_buffer = defaultdict(list)
    for job in missed:
        by_buffer[job.buffer].append(job)
    verdicts = {}
    for buffer, jobs in by_buffer.items():
        # In one look with the rest: of two, the second could miss what the first still saw.
        lasts = Case(
            When(processing_until__gt=db.DatabaseNow(buffer), then=Value(True)),
            default=Value(False),
            output_field=BooleanField(),
        )
        found = rows.filter(pk__in=[job.id for job in jobs]).annotate(lasts=lasts)
        rows_now = {row["pk"]: row for row in found.values(*_NOW)}
        for job in jobs:
            verdicts[job.fence] = _verdict(job, rows_now.get(job.id))
    return verdicts


def _verdict(job: Claimed, row) -> Settled:
    if row is None and job.removal_sent and job.is_held:
        # By this very settle, of which the answer was lost: nobody else could have it yet.
        return Settled(Verdict.WRITTEN)
    if row is None:
        return Settled(Verdict.LOST, None, "its row was removed")
    if row["last_token"] == job.token:
        # This very write came through before, and only its answer was lost. Somebody else
        # may have claimed the job since, if it sent it back to pending.
        return Settled(Verdict.WRITTEN)
    if row["claims"] != job.claims:
        return Settled(
            Verdict.LOST, row["worker"], "another worker has claimed it since"
        )
    if row["status"] != Status.RUNNING or row["processing_token"] != job.token:
        return Settled(
            Verdict.LOST, row["worker"], f"it was given back and is {row['status']}"
        )
    if row["lasts"]:
        return Settled(Verdict.BUSY)
    return Settled(
        Verdict.LOST, row["worker"], "its lease ended before the outcome was written"
    )
