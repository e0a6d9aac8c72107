"""The dedup ids of a batch, and the jobs that have them, looked up and locked in one order."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Q, QuerySet

from django_leasequeue import db, ownership
from django_leasequeue.exceptions import DedupConflict
from django_leasequeue.specs import Prepared
from django_leasequeue.transitions.dispatch import answers
from django_leasequeue.transitions.dispatch import owner as owners

# Ids in one IN list: below SQLite's former limit of 999 parameters.
IDS = 500

Key = tuple[str, str]
Places = dict[Key, list[int]]
Owners = dict[Key, Any]


def places(wanted: list[Prepared]) -> Places:
    """Return where in the batch each dedup id is wanted, in order."""
    found: Places = {}
    for place, one in enumerate(wanted):
        if one.key is not None:
            found.setdefault(one.key, []).append(place)
    return found


def find(rows: QuerySet[Any], keys: Places, hidden: bool) -> Owners:
    """Return the jobs that have the ids; `hidden`: by a locking read. See owner.find()."""
    ids_of: dict[str, list[str]] = {}
    for queue, dedup_id in sorted(keys):
        ids_of.setdefault(queue, []).append(dedup_id)
    found: Owners = {}
    for queue, ids in ids_of.items():
        for some in _slices(ids):
            mine = ownership.with_window(rows.filter(queue=queue, dedup_id__in=some))
            mine = mine.order_by()
            for owner in mine.select_for_update() if hidden else mine:
                found[owner.queue, owner.dedup_id] = owner
    return found


def check_tasks(known: Owners, wanted: list[Prepared], keys: Places) -> None:
    """Raise DedupConflict if an id is wanted for two tasks, or held by a job of another."""
    for key, those in keys.items():
        holder = known.get(key)
        first = wanted[those[0]]
        for one in (wanted[place] for place in those):
            if holder is not None and ownership.holds(holder):
                owners.check_task(holder, one)
            elif one.values["task"] != first.values["task"]:
                raise DedupConflict(
                    one.rules.id,
                    one.values["queue"],
                    one.values["task"],
                    None,
                    first.values["task"],
                )


def needs_lock(owner: Any, specs: list[Prepared], inside: bool) -> bool:
    """Whether these dispatches want more of the owner than an answer.

    `inside`: in the caller's transaction, until whose end a pending holder must not start.
    """
    if not ownership.holds(owner):
        return True
    given = [answers.answer_to(one, owner) for one in specs]
    if inside:
        return not all(answers.can_wait_for_commit(answer, owner) for answer in given)
    return any(answer.columns for answer in given)


def lock(rows: QuerySet[Any], to_lock: Owners, fresh: bool) -> Owners | None:
    """Lock owners by ascending primary key; None if one has changed since it was read."""
    rows = ownership.with_window(rows)
    locked = []
    for some in _slices(sorted(to_lock.values(), key=lambda owner: owner.pk)):
        ids = [owner.pk for owner in some]
        if not fresh:
            # What the snapshot shows may be long past; what is locked is true.
            locked += db.wait_for(rows.filter(pk__in=ids))
            continue
        unchanged = Q()
        for status in {owner.status for owner in some}:
            mine = [owner.pk for owner in some if owner.status == status]
            # An id never moves to another row; it is only taken away.
            unchanged |= Q(pk__in=mine, status=status, dedup_id__isnull=False)
        found = db.wait_for_unchanged(rows, ids, unchanged)
        if len(found) < len(ids):
            return None
        locked += found
    return {(owner.queue, owner.dedup_id): owner for owner in locked}


def _slices(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), IDS):
        yield items[start : start + IDS]
