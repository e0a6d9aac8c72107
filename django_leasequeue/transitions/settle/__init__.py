"""Settle: running -> what the run's outcome says, refused once the lease is not its own.

The one write that most queues leave unguarded. A row is changed only while its token is the
claim's and more than the safety buffer is left of its lease, by the database's clock. One
that is not to be kept at all is removed under the same guard.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.db import IntegrityError
from django.db.models import BooleanField, Case, Q, QuerySet, Value, When

from django_leasequeue import db, slots
from django_leasequeue.claimed import Claimed
from django_leasequeue.outcomes import Failed, Outcome, RetryLater, Succeeded
from django_leasequeue.retention import no_window_lasts
from django_leasequeue.states import Status
from django_leasequeue.transitions.settle.columns import Asked, columns_of, results_of
from django_leasequeue.transitions.settle.leaving import leaving
from django_leasequeue.transitions.settle.plain import settle_plain
from django_leasequeue.transitions.settle.verdicts import Settled, Verdict, explain

__all__ = ["Settled", "Verdict", "settle"]

# Seconds for which a settle runs again by itself; the settler tries until the lease ends.
RERUN_FOR = 5.0

_Finished = list[tuple[Claimed, Outcome]]

_WRITTEN = Settled(Verdict.WRITTEN)


class _LeaseEnded(Exception):
    """A lease ran out between the lock and the update: nothing of the group is written."""


def settle(
    rows: QuerySet[Any],
    finished: _Finished,
    with_writes: bool = False,
    recognise: bool = True,
) -> list[Settled]:
    """Write outcomes, and return what became of each, in order.

    Plain successes by one statement, which is what most groups are, all others in one
    transaction.

    `with_writes`: the transaction at hand is the atomic task's own. Where that keeps every
    other writer out (SQLite) the token alone is the guard: no renewal could come through,
    and no claim either. `recognise`: whether an outcome that the row has already under the
    run's token is this one, of which the answer was lost; not so if two processes may write
    one, and then it is lost. Raises the database's error if passing trouble does not pass within
    5 s of a statement for plain successes, or of the transaction for all others.
    """
    settled = _settled(rows, finished, with_writes, recognise)
    freed: Counter[str] = Counter()
    for (job, _), became in zip(finished, settled, strict=True):
        if job.concurrency_key is not None and became.verdict is not Verdict.BUSY:
            freed[job.concurrency_key] += 1
    if with_writes:
        slots.freed_on_commit(rows, freed)
    else:
        slots.freed(rows, freed)
    return settled


def _settled(
    rows: QuerySet[Any], finished: _Finished, with_writes: bool, recognise: bool
) -> list[Settled]:
    alone = with_writes and db.keeps_others_out(rows.db)
    written: set[tuple[int, int]] = set()
    if recognise or len(finished) == 1:
        # Of a group an error in the second part leaves the first to be recognised.
        written = settle_plain(
            rows, finished, alone=alone, in_block=with_writes, seconds=RERUN_FOR
        )
    if len(written) == len(finished):
        return [_WRITTEN] * len(finished)
    rest = [pair for pair in finished if pair[0].fence not in written]
    others = iter(_settle_rest(rows, rest, alone, with_writes, recognise))
    return [_WRITTEN if job.fence in written else next(others) for job, _ in finished]


def _settle_rest(
    rows: QuerySet[Any],
    finished: _Finished,
    alone: bool,
    with_writes: bool,
    recognise: bool,
) -> list[Settled]:
    if not finished:
        return []
    removing = True
    while True:
        try:
            return db.rerun(
                partial(_settle, rows, finished, alone, removing, recognise),
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


def _settle(
    rows: QuerySet[Any],
    finished: _Finished,
    alone: bool,
    removing: bool,
    recognise: bool,
) -> list[Settled]:
    verdicts: dict[tuple[int, int], Settled] = {}
    with db.write_transaction(rows):
        held = _lock(rows, [job for job, _ in finished], alone)
        for columns, jobs in _grouped(finished, held):
            removable = [job for job in jobs if removing and held[job.fence].may_go]
            going = leaving(rows, removable, columns["status"])
            _remove(rows, going, columns["status"], alone)
            gone = {job.fence for job in going}
            stay = [job for job in jobs if job.fence not in gone]
            _write(rows, columns, stay, alone)
            is_cancelled = columns["status"] is Status.CANCELLED
            done = Settled(Verdict.WRITTEN, cancelled=is_cancelled)
            verdicts.update((job.fence, done) for job in jobs)
    missed = [(job, outcome) for job, outcome in finished if job.fence not in verdicts]
    if missed:
        verdicts |= explain(rows, missed, recognise)
    return [verdicts[job.fence] for job, _ in finished]


def _lasting(
    rows: QuerySet[Any], jobs: list[Claimed], alone: bool = False
) -> QuerySet[Any]:
    """Rows of jobs of one buffer whose lease is still one of theirs."""
    condition: dict[str, Any] = {
        "processing_token__in": list({job.token for job in jobs}),
        "status": Status.RUNNING,
    }
    if not alone:
        condition["processing_until__gt"] = db.DatabaseNow(jobs[0].buffer)
    return db.by_key(rows, sorted(job.id for job in jobs), **condition)


def _lock(
    rows: QuerySet[Any], jobs: list[Claimed], alone: bool
) -> dict[tuple[int, int], Asked]:
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


def _grouped(
    finished: _Finished, held: dict[tuple[int, int], Asked]
) -> Iterator[tuple[dict[str, Any], list[Claimed]]]:
    """Yield (columns, jobs): jobs of which the same is to be written share one update."""
    groups: defaultdict[Any, _Finished] = defaultdict(list)
    for job, outcome in finished:
        if job.fence in held:
            groups[job.buffer, held[job.fence], _kind(job, outcome)].append(
                (job, outcome)
            )
    for (_, asked, _), group in groups.items():
        job, outcome = group[0]
        columns = columns_of(job, outcome, asked)
        if columns["status"] is Status.SUCCEEDED:
            columns["result"] = results_of(group)
        yield columns, [job for job, _ in group]


def _kind(job: Claimed, outcome: Outcome) -> Any:
    """Return what outcomes have in common that are written by one update."""
    match outcome:
        case Failed() | RetryLater():
            return job.fence  # the list of errors is the job's own
        case Succeeded():
            return Succeeded
        case _:
            return outcome


def _remove(
    rows: QuerySet[Any], jobs: list[Claimed], status: Status, alone: bool
) -> None:
    if not jobs:
        return
    for job in jobs:
        job.removal_sent = status
    with db.forced(rows):
        if db.delete(_lasting(rows, jobs, alone)) != len(jobs):
            raise _LeaseEnded
    # Of a first claim it is known here whether there is anything.
    stepped = [job.id for job in jobs if job.claims > 1 or job.has_steps]
    if stepped:
        db.delete_leftovers(rows, stepped)


def _write(
    rows: QuerySet[Any], columns: dict[str, Any], jobs: list[Claimed], alone: bool
) -> None:
    if jobs and _lasting(rows, jobs, alone).update(**columns) != len(jobs):
        raise _LeaseEnded
