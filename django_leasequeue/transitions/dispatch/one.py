"""One dispatch: look up the owner unlocked, lock it by primary key, re-check, act; else insert.

The unique constraint decides between rivals; whoever loses runs again and finds the winner.
The lock goes by primary key because a worker's writes lock row, then index entry, and a
locking read through the dedup index locks them the other way round, which deadlocks on
InnoDB.
"""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from django_leasequeue import db, ownership
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.specs import Prepared
from django_leasequeue.transitions.dispatch import answers
from django_leasequeue.transitions.dispatch import owner as owners
from django_leasequeue.transitions.dispatch.insert import insert
from django_leasequeue.transitions.dispatch.many import dispatch_many
from django_leasequeue.transitions.dispatch.passes import (
    TIME_LIMIT,
    Deadline,
    until_decided,
)


def dispatch(rows: QuerySet[Any], wanted: Prepared) -> tuple[Any, DispatchOutcome]:
    """Return (job, outcome): the new job, or the holder of the id and what was done to it.

    Raises DedupConflict or DispatchConflict, and IntegrityError for a violation of anything
    but the dedup constraint, such as a sequence that a restore left behind.
    """
    if wanted.after_group is not None or wanted.supersedes:
        # The row of its wait, and what it supersedes, belong into the same transaction.
        return dispatch_many(rows, [wanted])[0]
    if wanted.dedup is None:
        job = db.rerun(partial(insert, rows, wanted), using=rows.db, seconds=TIME_LIMIT)
        return job, DispatchOutcome.ADDED
    if db.in_transaction(transaction.get_connection(rows.db)):
        return until_decided(partial(_pass_inside, rows, wanted), rows, [wanted])
    return until_decided(partial(_pass_alone, rows, wanted), rows, [wanted])


def _pass_alone(
    rows: QuerySet[Any], wanted: Prepared, deadline: Deadline, hidden: bool
) -> tuple[Any, DispatchOutcome] | None:
    """Decide in autocommit mode, by as few statements as the case takes."""
    owner = owners.find(rows, wanted)
    if owner is None:
        return insert(rows, wanted, deadline.left), DispatchOutcome.ADDED
    if ownership.holds(owner):
        owners.check_task(owner, wanted)
        answer = answers.answer_to(wanted, owner)
        done = answers.write(rows, owner, answer, deadline.left)
        return (owner, answer.outcome) if done else None
    with db.bounded_transaction(rows.db, deadline.left):
        db.take_write_lock(rows)
        return _decide_unchanged(rows, wanted, owner)


def _pass_inside(
    rows: QuerySet[Any], wanted: Prepared, deadline: Deadline, hidden: bool
) -> tuple[Any, DispatchOutcome] | None:
    """Decide inside the caller's transaction, which a failed pass must leave usable."""
    connection = transaction.get_connection(rows.db)
    db.take_write_lock(rows)
    owner = None if hidden else owners.find(rows, wanted)
    fresh = owner is not None and db.reads_are_fresh(connection)
    if fresh and ownership.holds(owner):
        owners.check_task(owner, wanted)
        answer = answers.answer_to(wanted, owner)
        # Without an atomic block nobody would hear of the commit.
        if connection.in_atomic_block and answers.can_wait_for_commit(answer, owner):
            answers.write_on_commit(rows, owner, answer)
            return owner, answer.outcome
    with db.bounded_transaction(rows.db, deadline.left):
        if hidden:
            owner = owners.find(rows, wanted, locking=True)
        if owner is None:
            return insert(rows, wanted), DispatchOutcome.ADDED
        if fresh:
            return _decide_unchanged(rows, wanted, owner)
        # What the snapshot shows may be long past; what is locked is true.
        locked = db.wait_for(ownership.with_window(rows.filter(pk=owner.pk)))
        return _decide_locked(rows, wanted, *locked)


def _decide_unchanged(
    rows: QuerySet[Any], wanted: Prepared, owner: Any
) -> tuple[Any, DispatchOutcome] | None:
    locked = db.wait_for_unchanged(
        ownership.with_window(rows), [owner.pk], owners.unchanged(owner)
    )
    if not locked:
        # So that no lock stays on a row that may be a worker's by now.
        transaction.set_rollback(True, using=rows.db)
        return None
    return _decide_locked(rows, wanted, *locked)


def _decide_locked(
    rows: QuerySet[Any], wanted: Prepared, owner: Any = None
) -> tuple[Any, DispatchOutcome]:
    if owner is not None and owner.dedup_id == wanted.rules.id:
        if ownership.holds(owner):
            owners.check_task(owner, wanted)
            answer = answers.answer_to(wanted, owner)
            answers.write_locked(rows, owner, answer)
            return owner, answer.outcome
        owners.release_ids(rows, [owner.pk])
    return insert(rows, wanted), DispatchOutcome.ADDED
