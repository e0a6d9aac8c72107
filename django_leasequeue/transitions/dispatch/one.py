"""One dispatch: look up the owner unlocked, lock it by primary key, else insert.

The unique constraint decides between rivals; whoever loses runs again and finds the winner.
The lock goes by primary key because a worker's writes lock row, then index entry, and a
locking read through the dedup index locks them the other way round, which deadlocks on
InnoDB.
"""

from functools import partial

from django.db import IntegrityError, transaction

from django_leasequeue import clock, db
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.exceptions import DispatchConflict
from django_leasequeue.specs import Prepared
from django_leasequeue.states import Status
from django_leasequeue.transitions.dispatch import owner as owners
from django_leasequeue.transitions.dispatch.insert import insert

# Seconds for which a dispatch outside a transaction runs again. A lost race is decided
# within milliseconds; this bounds a storm of rivals, below the 30 s that web servers give
# a request by default.
PATIENCE = 20.0


def dispatch(rows, wanted: Prepared):
    """Return (job, outcome): the new job, or the holder of the id and what was done to it.

    Raises DedupConflict or DispatchConflict, and IntegrityError for a violation of anything
    but the dedup constraint, such as a sequence that a restore left behind.
    """
    if wanted.dedup is None:
        return insert(rows, wanted), DispatchOutcome.ADDED
    deadline = clock.now() + PATIENCE
    hidden = False
    while True:
        try:
            decided = db.rerun(
                partial(_decide, rows, wanted, hidden),
                using=rows.db,
                seconds=deadline - clock.now(),
            )
        except IntegrityError as error:
            if not db.is_violation(error, owners.dedup_constraint(rows), rows.model):
                raise
            hidden = owners.winner_is_hidden(rows, wanted, hidden)
            decided = None
        if decided is not None:
            return decided
        if clock.now() > deadline:
            raise DispatchConflict(
                wanted.rules.id,
                wanted.values["queue"],
                f"other dispatches of it came first, again and again, for {PATIENCE:g} seconds",
            )


def _decide(rows, wanted: Prepared, hidden: bool):
    """Make one pass; None means that the owner changed meanwhile and another pass is due."""
    connection = transaction.get_connection(rows.db)
    owner = _find(rows, wanted, hidden)
    if owner is not None and owners.holds(owner):
        owners.check_task(owner, wanted)
        if not connection.in_atomic_block:
            outcome = owners.answer(rows, owner, wanted)
            return outcome and (owner, outcome)
        if _may_stay_unlocked(owner, wanted) and db.reads_are_fresh(connection):
            return owner, owners.answer_later(rows, owner, wanted)
    elif owner is None and not connection.in_atomic_block:
        return insert(rows, wanted), DispatchOutcome.ADDED
    # A savepoint in the caller's transaction, so that a lost insert does not spoil it.
    with transaction.atomic(using=rows.db):
        return _decide_locked(rows, owner, wanted)


def _decide_locked(rows, owner, wanted: Prepared):
    if owner is not None:
        owner = next(
            iter(db.wait_for(owners.with_window(rows.filter(pk=owner.pk)))), None
        )
    if owner is not None and owner.dedup_id == wanted.rules.id:
        if owners.holds(owner):
            owners.check_task(owner, wanted)
            outcome = owners.answer(rows, owner, wanted)
            return outcome and (owner, outcome)
        owners.release_id(rows, owner)
    return insert(rows, wanted), DispatchOutcome.ADDED


def _find(rows, wanted: Prepared, hidden: bool):
    mine = rows.filter(queue=wanted.values["queue"], dedup_id=wanted.rules.id)
    found = owners.with_window(mine).order_by()
    return next(iter(found.select_for_update() if hidden else found), None)


def _may_stay_unlocked(owner, wanted: Prepared) -> bool:
    # A slow web request must not hold up the worker that runs the job.
    return owner.status == Status.RUNNING and (
        owners.only_skips(owner, wanted) or owners.only_extends_running(owner, wanted)
    )
