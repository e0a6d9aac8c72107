"""Retry by hand: finished -> pending, due now, as a new round of the same job.

A job that has its dedup id goes back with it. One whose id was taken over asks for it as a
dispatch does: whoever holds it keeps it, and the job stays as it is; else the id comes back.
Rows that somebody has locked are passed over, so that two who retry at once, a prune or a
dispatch never wait for this one, nor it for them.
"""

from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from django.db import Error, IntegrityError, transaction
from django.db.models import QuerySet

from django_leasequeue import clock, db, ownership, traces
from django_leasequeue.exceptions import RetryRefused
from django_leasequeue.fields import NOW
from django_leasequeue.rounds import new_round
from django_leasequeue.states import FINAL, Status

# Rows in one transaction: short enough to hold nobody up.
ROWS = 500
# Seconds for which one such transaction runs again through passing trouble, and for which a
# job waits for a rival that has taken its dedup id and not committed.
RERUN_FOR = 10.0

_FINISHED = {"status__in": sorted(FINAL)}


class Retrial(NamedTuple):
    """What became of the jobs, by id.

    `retried`: they are pending again, in a new round. `conflicts`: they were left as they
    are, since another job has their dedup id; its id, or None where the caller's transaction
    can't see it. `unfinished`: they wait or run. `busy`: somebody holds the row locked, or
    the dedup id is being given to somebody; ask again. `gone`: their rows were removed.
    """

    retried: set[int]
    conflicts: dict[int, int | None]
    unfinished: set[int]
    busy: set[int]
    gone: set[int]

    def check(self, pk: int) -> None:
        """Raise RetryRefused, saying why, unless this job was retried."""
        if pk in self.retried:
            return
        holder = self.conflicts.get(pk)
        if pk in self.conflicts:
            other = (
                f"job {holder}" if holder else "a job that this transaction can't see"
            )
            why = f"{other} has its dedup id by now"
        elif pk in self.unfinished:
            why = "it has not finished"
        elif pk in self.busy:
            why = "somebody else is about to change it, or has it locked; try again"
        else:
            why = "its row is gone"
        raise RetryRefused(pk, why, holder)


def retry(rows: QuerySet[Any], ids: list[int]) -> Retrial:
    """Start a new round of the finished jobs of these ids and return what became of each.

    Of several that want one dedup id, the one that still has it gets it, else the newest.
    """
    done = Retrial(set(), {}, set(), set(), set())
    without_id: set[int] = set()
    for start in range(0, len(ids), ROWS):
        some = set(ids[start : start + ROWS])
        again = partial(_retry, rows, some)
        retried, lost = db.rerun(again, using=rows.db, seconds=RERUN_FOR)
        done.retried.update(retried)
        without_id.update(lost)
        _explain(rows, some - retried - lost, done)
    # Each in a transaction of its own: what waits for its id must hold up no other.
    for pk in sorted(without_id, reverse=True):
        match _retry_with_id(rows, pk):
            case _Fate.RETRIED, _:
                done.retried.add(pk)
            case _Fate.CONFLICT, holder:
                done.conflicts[pk] = holder
            case _Fate.BUSY, _:
                done.busy.add(pk)
            case _:
                _explain(rows, {pk}, done)
    return done


class _Fate(Enum):
    RETRIED = "it waits again"
    CONFLICT = "another job has its id"
    BUSY = "somebody is about to do something to its id"
    UNFIT = "it is locked, gone or not finished"


def _explain(rows: QuerySet[Any], ids: set[int], done: Retrial) -> None:
    """Note why these could not be retried, as far as can be seen without a lock."""
    statuses = dict(rows.filter(pk__in=ids).values_list("pk", "status")) if ids else {}
    finished = {pk for pk, status in statuses.items() if status in FINAL}
    done.busy.update(finished)
    done.unfinished.update(statuses.keys() - finished)
    done.gone.update(ids - statuses.keys())


def _retry(rows: QuerySet[Any], ids: set[int]) -> tuple[set[int], set[int]]:
    """Retry what is finished and free; return that, and what has lost its dedup id."""
    with db.write_transaction(rows):
        finished = db.by_key(rows, ids, **_FINISHED).order_by("pk")
        columns = ("pk", "dedup_id", "released_dedup_id", NOW)
        found = db.take(finished.values_list(*columns))
        lost = {
            pk for pk, own, former, _ in found if own is None and former is not None
        }
        free = {pk for pk, *_ in found} - lost
        if free:
            db.by_key(rows, free, **_FINISHED).update(**_again(found[0][-1]))
    return free, lost


def _retry_with_id(rows: QuerySet[Any], pk: int) -> tuple[_Fate, int | None]:
    """Retry a job that has lost its dedup id, if the id can be had; else say who has it."""
    connection = transaction.get_connection(rows.db)
    deadline = clock.now() + RERUN_FOR
    one_pass = partial(_pass, rows, pk)
    while True:
        try:
            return db.rerun(one_pass, using=rows.db, seconds=RERUN_FOR)
        except IntegrityError:
            # Somebody else came first, whom the next pass finds if it can.
            if not db.reads_are_fresh(connection):
                return _Fate.CONFLICT, None
            if clock.now() > deadline:
                raise
        except Error as error:
            if not db.is_lock_wait(error, connection):
                raise
            return _Fate.BUSY, None


def _pass(rows: QuerySet[Any], pk: int) -> tuple[_Fate, int | None]:
    with db.write_transaction(rows), db.bounded_transaction(rows.db, RERUN_FOR):
        mine = db.by_key(rows, [pk], **_FINISHED)
        columns = ("queue", "dedup_id", "released_dedup_id", NOW)
        locked = db.take(mine.values_list(*columns))
        if not locked:
            return _Fate.UNFIT, None
        queue, own, former, now = locked[0]
        regained: dict[str, Any] = {}
        if own is None and former is not None:
            fate, holder = _take_over(rows, queue, former)
            if fate is not _Fate.RETRIED:
                return fate, holder
            regained = ownership.regained()
        mine.update(**regained, **_again(now))
    return _Fate.RETRIED, None


def _take_over(
    rows: QuerySet[Any], queue: str, dedup_id: str
) -> tuple[_Fate, int | None]:
    """Take an id from the job that has it but holds it no longer, if there is one."""
    has_it = {"queue": queue, "dedup_id": dedup_id}
    owner = ownership.with_window(rows.filter(**has_it)).order_by().first()
    if owner is None:
        return _Fate.RETRIED, None
    connection = transaction.get_connection(rows.db)
    # Who holds the id for certain is left unlocked: it may be running.
    if not (ownership.holds(owner) and db.reads_are_fresh(connection)):
        locked = db.take(ownership.with_window(db.by_key(rows, [owner.pk], **has_it)))
        if not locked:
            return _Fate.BUSY, None
        owner = locked[0]
    if ownership.holds(owner):
        return _Fate.CONFLICT, owner.pk
    with db.forced(rows):
        db.by_key(rows, [owner.pk]).update(**ownership.released())
    return _Fate.RETRIED, None


def _again(now: datetime) -> dict[str, Any]:
    return {
        **new_round(),
        **traces.by_hand(traces.RETRIED, now),
        "finished_at": None,
        "status": Status.PENDING,
    }
