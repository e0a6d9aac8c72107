"""Groups: a job that waits for one may start once no job of the group waits or runs.

No settle looks for that: the last two of a group don't see each other, and a group that
nobody waits for costs them nothing. Whoever has ended jobs looks afterwards, and so does
whoever made a job wait, once that has committed: of two that miss each other the later one
sees both. Workers also look every few seconds, for jobs that were ended in other ways, or by
a process that died before its look.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.states import AWAITS_GROUP, Status

# Groups of one look; the next one goes on from there.
GROUPS = 500
# Jobs that start in one transaction.
ROWS = 500
# Seconds for which each statement or transaction runs again through passing trouble.
RERUN_FOR = 5.0


class Looked(NamedTuple):
    """How many jobs may start now, and whether any other waits for a group."""

    started: int
    others_wait: bool


@dataclass(slots=True)
class Seen:
    """What looks have seen: an unfinished job of each group, so that it is looked at first.

    The first look at a group passes its finished jobs, the next ones do only once that job
    has ended.
    """

    unfinished: dict[str, int] = field(default_factory=dict)
    # The last group of the look before; "" to begin with the first.
    last: str = ""


def start(rows: QuerySet[Any], seen: Seen | None = None) -> Looked:
    """Let the jobs start whose group is done. Raises the database's error.

    A group without jobs is done, too. Several may look at once: each job is started once.
    """
    seen = Seen() if seen is None else seen
    groups = db.rerun(partial(_groups, rows, seen), using=rows.db, seconds=RERUN_FOR)
    if not groups:
        return Looked(0, others_wait=False)
    ask = partial(_unfinished_among, rows, seen.unfinished)
    alive = db.rerun(ask, using=rows.db, seconds=RERUN_FOR)
    started = waiting = 0
    for group in groups:
        if seen.unfinished.get(group) not in alive:
            started += _start(rows, group, seen)
        waiting += group in seen.unfinished
    return Looked(started, waiting > 0 or bool(seen.last))


def start_on_commit(rows: QuerySet[Any]) -> None:
    """Let them start once the caller's transaction has committed, or by a worker's look."""
    db.on_commit(partial(start, rows), using=rows.db)


def _groups(rows: QuerySet[Any], seen: Seen) -> list[str]:
    """Return the next groups that jobs wait for, and forget those that none does."""
    waits = _waits(rows).filter(group__gt=seen.last).order_by("group")
    groups = list(waits.values_list("group", flat=True).distinct()[:GROUPS])
    if not seen.last and len(groups) < GROUPS:
        seen.unfinished = {
            group: pk for group, pk in seen.unfinished.items() if group in groups
        }
    seen.last = groups[-1] if len(groups) == GROUPS else ""
    return groups


def _unfinished_among(rows: QuerySet[Any], known: dict[str, int]) -> set[int]:
    if not known:
        return set()
    asked = db.by_key(rows, known.values(), status__in=_UNFINISHED)
    return set(asked.order_by().values_list("pk", flat=True))


def _start(rows: QuerySet[Any], group: str, seen: Seen) -> int:
    """Start what waits for this group if it is done; else note one of its jobs."""
    started = 0
    while True:
        one_pass = partial(_pass, rows, group, seen)
        number, more = db.rerun(one_pass, using=rows.db, seconds=RERUN_FOR)
        started += number
        if not more:
            return started


def _pass(rows: QuerySet[Any], group: str, seen: Seen) -> tuple[int, bool]:
    seen.unfinished.pop(group, None)
    mine = _waits(rows).filter(group=group).order_by("job_id")
    # Before the look at the group, which then sees the jobs that were dispatched with these.
    ids = list(mine.values_list("pk", flat=True)[:ROWS])
    pk = _newest_unfinished(rows, group) if ids else None
    if pk is not None:
        seen.unfinished[group] = pk
    if pk is not None or not ids:
        return 0, False
    with db.write_transaction(rows):
        # Rows that somebody has locked are left for the next look.
        free = db.by_key(rows, ids).order_by("pk").values_list("pk", flat=True)
        taken = db.take(free)
        number = 0
        if taken:
            waiting = {"blocked": AWAITS_GROUP, "status": Status.PENDING}
            number = db.by_key(rows, taken, **waiting).update(blocked=0)
        over = {*taken, *_gone(rows, set(ids).difference(taken))}
        if over:
            db.delete(_waits(rows).filter(pk__in=over))
    return number, len(ids) == ROWS and bool(taken)


def _gone(rows: QuerySet[Any], ids: set[int]) -> set[int]:
    # Not by the delete itself, which on InnoDB would wait for jobs that somebody has locked.
    if not ids:
        return ids
    there = rows.filter(pk__in=ids).order_by().values_list("pk", flat=True)
    return ids.difference(there)


def _newest_unfinished(rows: QuerySet[Any], group: str) -> int | None:
    # From the newest on, which mostly end last.
    found = rows.filter(group=group, status__in=_UNFINISHED).order_by("-pk")
    return next(iter(found.values_list("pk", flat=True)[:1]), None)


def _waits(rows: QuerySet[Any]) -> QuerySet[Any]:
    relation = rows.model._meta.get_field("group_wait")
    return relation.related_model._base_manager.using(rows.db)


_UNFINISHED = [Status.PENDING, Status.RUNNING]
