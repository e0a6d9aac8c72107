"""Many dispatches in one transaction: owners locked in one order, new rows in spec order."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.db import IntegrityError

from django_leasequeue import clock, db
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.exceptions import DedupConflict, DispatchConflict
from django_leasequeue.specs import Prepared
from django_leasequeue.transitions.dispatch import owner as owners
from django_leasequeue.transitions.dispatch.insert import insert_many
from django_leasequeue.transitions.dispatch.one import PATIENCE

# Ids in one IN list: below SQLite's former limit of 999 parameters.
IDS = 500


def dispatch_many(rows, wanted: list[Prepared]) -> list[tuple]:
    """Return (job, outcome) a spec, in order; everything is stored, or nothing.

    Of specs with one id the first wins; the others get its job. Raises as dispatch() does,
    DedupConflict before anything is written.
    """
    if not wanted:
        return []
    deadline = clock.now() + PATIENCE
    hidden = False
    while True:
        try:
            return db.rerun(
                partial(_dispatch_all, rows, wanted, hidden),
                using=rows.db,
                seconds=deadline - clock.now(),
            )
        except IntegrityError as error:
            if not db.is_violation(error, owners.dedup_constraint(rows), rows.model):
                raise
            first = next(one for one in wanted if one.dedup is not None)
            hidden = owners.winner_is_hidden(rows, first, hidden)
            if clock.now() > deadline:
                raise DispatchConflict(
                    first.rules.id,
                    first.values["queue"],
                    "other dispatches of this batch's ids came first, again and again, "
                    f"for {PATIENCE:g} seconds",
                ) from error


def _dispatch_all(rows, wanted: list[Prepared], hidden: bool) -> list[tuple]:
    with db.write_transaction(rows):
        holders = _lock_holders(rows, wanted, hidden)
        firsts: dict[tuple[str, str], int] = {}
        new: list[int] = []
        for place, one in enumerate(wanted):
            key = one.key
            if key is None or (key not in holders and key not in firsts):
                new.append(place)
                firsts |= {} if key is None else {key: place}
        jobs = dict(
            zip(new, insert_many(rows, [wanted[place] for place in new]), strict=True)
        )
        done: list[tuple] = []
        followers: Counter[int] = Counter()
        for place, one in enumerate(wanted):
            key = one.key
            if place in jobs:
                done.append((jobs[place], DispatchOutcome.ADDED))
            elif key in firsts:
                followers[jobs[firsts[key]].pk] += 1
                done.append((jobs[firsts[key]], DispatchOutcome.SKIPPED))
            elif key is not None:
                done.append((holders[key], owners.answer(rows, holders[key], one)))
        for pk, times in followers.items():
            rows.filter(pk=pk).update(
                suppressed=times, last_suppressed_at=db.DatabaseNow()
            )
        return done


def _lock_holders(
    rows, wanted: list[Prepared], hidden: bool
) -> dict[tuple[str, str], Any]:
    """Lock every owner of a wanted id, release the ids that are free, return the holders."""
    ids_of: dict[str, set[str]] = defaultdict(set)
    for one in wanted:
        if one.dedup is not None:
            ids_of[one.values["queue"]].add(one.rules.id)
    found: list[int] = []
    for queue, ids in ids_of.items():
        for some in _slices(sorted(ids)):
            mine = rows.filter(queue=queue, dedup_id__in=some).order_by()
            mine = mine.select_for_update() if hidden else mine
            found += mine.values_list("pk", flat=True)
    locked = {}
    # By ascending primary key, so that two batches wait for each other but never in a ring.
    for some in _slices(sorted(found)):
        for owner in db.wait_for(owners.with_window(rows.filter(pk__in=some))):
            locked[owner.queue, owner.dedup_id] = owner
    holders = {key: owner for key, owner in locked.items() if owners.holds(owner)}
    _check_tasks(holders, wanted)
    mine = {one.key for one in wanted}
    for key, owner in locked.items():
        if key in mine and key not in holders:
            owners.release_id(rows, owner)
    return holders


def _check_tasks(holders, wanted: list[Prepared]) -> None:
    first: dict[tuple[str, str], Prepared] = {}
    for one in wanted:
        key = one.key
        if key is None:
            continue
        if key in holders:
            owners.check_task(holders[key], one)
        elif first.setdefault(key, one).values["task"] != one.values["task"]:
            raise DedupConflict(
                one.rules.id,
                one.values["queue"],
                one.values["task"],
                None,
                first[key].values["task"],
            )


def _slices(items: list) -> Iterator[list]:
    for start in range(0, len(items), IDS):
        yield items[start : start + IDS]
