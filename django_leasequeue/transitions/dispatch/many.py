"""Many dispatches in one transaction: owners locked in one order, new rows in spec order."""

from collections import Counter
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from django_leasequeue import db, ownership
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.specs import Prepared
from django_leasequeue.transitions.dispatch import (
    answers,
    batch,
    group_waits,
    superseding,
)
from django_leasequeue.transitions.dispatch import owner as owners
from django_leasequeue.transitions.dispatch.insert import insert_many
from django_leasequeue.transitions.dispatch.passes import (
    TIME_LIMIT,
    Deadline,
    until_decided,
)


def dispatch_many(rows: QuerySet[Any], wanted: list[Prepared]) -> list[tuple[Any, ...]]:
    """Return (job, outcome) a spec, in order; everything is stored, or nothing.

    Of specs with one id the first wins; the others get its job. Raises as dispatch() does,
    DedupConflict before anything is written.
    """
    if not wanted:
        return []
    keyed = [one for one in wanted if one.key is not None]
    if keyed:
        return until_decided(partial(_pass, rows, wanted), rows, keyed)
    return db.rerun(partial(_add, rows, wanted), using=rows.db, seconds=TIME_LIMIT)


def _add(rows: QuerySet[Any], wanted: list[Prepared]) -> list[tuple[Any, ...]]:
    with db.write_transaction(rows):
        jobs = insert_many(rows, wanted, [0] * len(wanted))
        group_waits.store(rows, wanted, jobs)
        superseding.cancel_older(rows, wanted, jobs)
    return [(job, DispatchOutcome.ADDED) for job in jobs]


def _pass(
    rows: QuerySet[Any], wanted: list[Prepared], deadline: Deadline, hidden: bool
) -> Any:
    connection = transaction.get_connection(rows.db)
    inside = db.in_transaction(connection)
    # Without an atomic block nobody would hear of the commit.
    by_hand = inside and not connection.in_atomic_block
    keys = batch.places(wanted)
    with db.bounded_transaction(rows.db, deadline.left):
        db.take_write_lock(rows)
        fresh = not inside or (not hidden and db.reads_are_fresh(connection))
        known = batch.find(rows, keys, hidden)
        batch.check_tasks(known, wanted, keys)
        to_lock = {
            key: owner
            for key, owner in known.items()
            if not fresh
            or by_hand
            or batch.needs_lock(owner, [wanted[place] for place in keys[key]], inside)
        }
        locked = batch.lock(rows, to_lock, fresh)
        if locked is None:
            # So that no lock stays on a row that may be a worker's by now.
            transaction.set_rollback(True, using=rows.db)
            return None
        left_alone = {key: known[key] for key in known if key not in to_lock}
        owned = left_alone | {key: locked[key] for key in locked if key in keys}
        holders = {key: owner for key, owner in owned.items() if ownership.holds(owner)}
        batch.check_tasks(holders, wanted, keys)
        owners.release_ids(
            rows, [owner.pk for key, owner in owned.items() if key not in holders]
        )
        done = _insert(rows, wanted, keys, holders)
        skipped: Counter[int] = Counter()
        for key, owner in holders.items():
            for place in keys[key]:
                answer = answers.answer_to(wanted[place], owner)
                done[place] = (owner, answer.outcome)
                if not answer.columns:
                    skipped[owner.pk] += 1
                elif key in locked:
                    answers.write_locked(rows, owner, answer)
                else:
                    answers.write_on_commit(rows, owner, answer)
        answers.count_many(rows, skipped, locked={one.pk for one in locked.values()})
    return [done[place] for place in range(len(wanted))]


def _insert(
    rows: QuerySet[Any], wanted: list[Prepared], keys: Any, holders: Any
) -> dict[int, tuple[Any, ...]]:
    """Insert what no holder answers, and let the first of each id answer the others."""
    new = {key: those for key, those in keys.items() if key not in holders}
    firsts = {those[0]: those[1:] for those in new.values()}
    firsts |= {place: [] for place, one in enumerate(wanted) if one.key is None}
    order = sorted(firsts)
    new_ones = [wanted[place] for place in order]
    jobs = insert_many(rows, new_ones, [len(firsts[place]) for place in order])
    group_waits.store(rows, new_ones, jobs)
    superseding.cancel_older(rows, new_ones, jobs)
    done = {}
    for place, job in zip(order, jobs, strict=True):
        done[place] = (job, DispatchOutcome.ADDED)
        done |= dict.fromkeys(firsts[place], (job, DispatchOutcome.SKIPPED))
    return done
