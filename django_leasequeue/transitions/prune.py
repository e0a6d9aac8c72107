"""Prune: finished -> no row, once the rules of retention keep it no longer.

Finished jobs of one status, queue and task lie side by side in an index, oldest first, and
one rule is for all of them: a lane. What is to go is the lane's head, up to a bound by age
or by count. It is walked in small steps: read without a lock, then deleted by primary key
in a short transaction, in which rows that somebody has locked, that came back to life or
whose dedup window lasts are left out. Several may prune at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import (
    BooleanField,
    Case,
    Q,
    QuerySet,
    Value,
    When,
)

from django_leasequeue import db, registry
from django_leasequeue.fields import NOW
from django_leasequeue.retention import Rule, no_window_lasts
from django_leasequeue.states import FINAL, Status

# Rows in one transaction: short enough to hold nobody up.
ROWS = 500
# Seconds for which one such transaction runs again through passing trouble.
RERUN_FOR = 5.0

_INDEX = "leasequeue_finished"
# A job's place in its lane: when it finished, and its id.
_Place = tuple[datetime, int]
_LAST_ID = 2**63 - 1


class _Lane(NamedTuple):
    status: Status
    queue: str
    task: str
    # The database's time when the lane was looked for.
    now: datetime


def prune(
    rows: QuerySet[Any],
    queue: str | None = None,
    dry_run: bool = False,
    after_step: Callable[[], bool] | None = None,
) -> Counter[str]:
    """Remove finished jobs that are to be kept no longer; return how many, by status.

    `queue`: of this one alone. `dry_run`: only count. `after_step` is called between two
    transactions; when it returns False, that was the last.
    """
    removed: Counter[str] = Counter()
    for lane in _lanes(rows, queue):
        rule = registry.retention(lane.task, lane.queue)[lane.status]
        bound = _bound(rows, lane, rule)
        if bound is None:
            continue
        counts = _count(rows, lane, bound) if dry_run else _walk(rows, lane, bound)
        for count in counts:
            removed[lane.status.value] += count
            if after_step is not None and not after_step():
                return +removed
    return +removed


def _lanes(rows: QuerySet[Any], queue: str | None) -> Iterator[_Lane]:
    """Yield the lanes there are, at the cost of two looks each, however long they are."""
    for status in sorted(FINAL):
        finished = rows.filter(status=status, finished_at__isnull=False)
        if queue is None:
            lane = _first_lane(finished, status, "queue", "task")
        else:
            # MariaDB sorts if it is asked for an order by what is constant.
            lane = _first_lane(finished.filter(queue=queue), status, "task")
        while lane is not None:
            yield lane
            here = finished.filter(queue=lane.queue, task__gt=lane.task)
            following = _first_lane(here, status, "task")
            if following is None and queue is None:
                beyond = finished.filter(queue__gt=lane.queue)
                following = _first_lane(beyond, status, "queue", "task")
            lane = following


def _first_lane(finished: QuerySet[Any], status: Status, *order: str) -> _Lane | None:
    # The full order makes the index the only cheap way.
    heads = finished.order_by(*order, "finished_at", "id").annotate(now=NOW)
    with db.forced(finished, _INDEX):
        found = list(heads.values_list("queue", "task", "now")[:1])
    return _Lane(status, *found[0]) if found else None


def _in(rows: QuerySet[Any], lane: _Lane) -> QuerySet[Any]:
    return rows.filter(status=lane.status, queue=lane.queue, task=lane.task)


def _bound(rows: QuerySet[Any], lane: _Lane, rule: Rule) -> _Place | None:
    """Return the place of the last job that is to go; None if the rule keeps all."""
    bounds = []
    if rule.age is not None:
        bounds.append((lane.now - timedelta(seconds=rule.age), _LAST_ID))
    if rule.count is not None:
        newest = _in(rows, lane).filter(finished_at__isnull=False)
        newest = newest.order_by("-finished_at", "-id")
        with db.forced(rows, _INDEX):
            bounds += newest.values_list("finished_at", "id")[rule.count :][:1]
    return max(bounds, default=None)


def _count(rows: QuerySet[Any], lane: _Lane, bound: _Place) -> Iterator[int]:
    """Yield how many rows a walk would remove."""
    finished_at, pk = bound
    upto = Q(finished_at__lt=finished_at) | Q(finished_at=finished_at, pk__lte=pk)
    found = _in(rows, lane).filter(upto, no_window_lasts(), rerun=False)
    with db.forced(rows, _INDEX):
        yield found.filter(finished_at__lte=finished_at).count()


def _walk(rows: QuerySet[Any], lane: _Lane, bound: _Place) -> Iterator[int]:
    """Remove step by step what is removable up to the bound; yield how many rows each time."""
    # A job that came back to life has another status, or has finished once more since.
    condition = Q(status=lane.status, finished_at__lte=bound[0], rerun=False)
    last: _Place | None = None
    while True:
        with db.forced(rows, _INDEX):
            step = _after(_in(rows, lane), last, bound[0])
        step = [row for row in step if row[:2] <= bound]
        ids = sorted(pk for _, pk, is_free in step if is_free)
        free = condition & no_window_lasts()
        yield len(db.remove(rows, ids, free, RERUN_FOR)) if ids else 0
        if len(step) < ROWS:
            return
        last = step[-1][:2]


def _after(
    rows: QuerySet[Any], last: _Place | None, until: datetime
) -> list[tuple[datetime, int, bool]]:
    """Return the next rows after a place, and whether each is free of its dedup window.

    From there on, not from the head: what was left is not looked at twice, nor is what was
    deleted, whose entries stay in the index for a while.
    """
    is_free = Case(
        When(no_window_lasts(), then=Value(True)),
        default=Value(False),
        output_field=BooleanField(),
    )
    rows = rows.order_by("finished_at", "id").annotate(is_free=is_free)
    rows = rows.values_list("finished_at", "pk", "is_free")
    if last is None:
        return list(rows.filter(finished_at__lte=until)[:ROWS])
    # In two looks, since not every database seeks by a pair.
    finished_at, pk = last
    step = list(rows.filter(finished_at=finished_at, pk__gt=pk)[:ROWS])
    if len(step) < ROWS:
        later = rows.filter(finished_at__gt=finished_at, finished_at__lte=until)
        step += later[: ROWS - len(step)]
    return step
