"""Which rows of the job table a list looks at, so that none looks at all of them.

A filter is answered by an index that leads to its jobs, or else among the jobs next to where
the list begins.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.admin import listing
from django_leasequeue.db.distinct import distinct
from django_leasequeue.models import GroupWait, Job
from django_leasequeue.states import FINAL, Status

# Jobs that a list looks at where no index leads to those it wants: half a second on the
# slowest of the databases, whatever the table holds.
NEXT = 50_000
# Entries of an index that are read for one list, of finished and of waiting jobs each.
ENTRIES = 20_000
# Pairs of queue and task whose finished jobs are found by the index; and queues that are
# named in filters and searches.
MOST_KINDS, MOST_QUEUES = 200, 200


# What the rows of a queryset are made into.
Item = TypeVar("Item")


class Wanted(NamedTuple):
    """What a list is filtered by, of what an index knows; None is any."""

    status: str | None = None
    queue: str | None = None
    task: str | None = None
    group: str | None = None
    schedule: str | None = None


class Range(NamedTuple):
    """Where in the table a list may look: ids from `low` to below `high`; None is no bound.

    `oldest_first`: whether it begins at `low`.
    """

    low: int | None = None
    high: int | None = None
    oldest_first: bool = False

    def of(self, jobs: QuerySet[Job, Item]) -> QuerySet[Job, Item]:
        """Return those of the jobs that are in it."""
        if self.low is not None:
            jobs = jobs.filter(pk__gte=self.low)
        return jobs if self.high is None else jobs.filter(pk__lt=self.high)

    def has(self, pk: int) -> bool:
        """Whether a job is in it."""
        return (self.low or 0) <= pk and (self.high is None or pk < self.high)

    def within(self, low: int | None = None, high: int | None = None) -> "Range":
        """Return what of it is within these bounds, too."""
        lows = [one for one in (self.low, low) if one is not None]
        highs = [one for one in (self.high, high) if one is not None]
        return self._replace(low=max(lows, default=None), high=min(highs, default=None))

    def sorted(self, ids: Iterable[int]) -> list[int]:
        """Return those of the ids that are in it, in the list's order."""
        return sorted(filter(self.has, ids), reverse=not self.oldest_first)

    @property
    def order(self) -> str:
        """The list's order."""
        return "pk" if self.oldest_first else "-pk"


@dataclass(frozen=True)
class Reach:
    """Which jobs a list has looked at: those that an index led to, those next to its begin.

    `sure`: ids of those that are listed, as the index says. `indexed`: ids of others that may
    be, in the list's order. `near`: the range next to the list's begin, None if the index told
    all. `looked`: at how many jobs at most; `last`: the last of them, None if there are no
    more.
    """

    where: Range
    indexed: list[int]
    sure: frozenset[int] = frozenset()
    near: Range | None = None
    last: int | None = None
    looked: int = 0

    def ids(self, rows: QuerySet[Job], most: int) -> list[int]:
        """Return the ids of those of `rows` that it has looked at, in the list's order.

        Where there are more than `most`, one more.
        """
        found: set[int] = set()
        ids = rows.order_by(self.where.order).values_list("pk", flat=True)
        if self.near is not None:
            with db.forced(rows):
                found.update(self.near.of(ids)[: most + 1])
        if len(found) <= most:
            found.update(self.sure)
            if self.indexed:
                found.update(ids.filter(pk__in=self.indexed))
        return self.where.sorted(found)[: most + 1]

    def narrowed(self, jobs: QuerySet[Job], count: int) -> "Reach":
        """Return it with no more than `count` jobs next to the begin, and as many indexed."""
        if self.near is None:
            return of_indexed(self.where, self.indexed, count)
        near, last = next_to(jobs, self.where, count)
        return Reach(self.where, self.indexed[:count], self.sure, near, last, count)


def reach(jobs: QuerySet[Job], wanted: Wanted, where: Range, alone: bool) -> Reach:
    """Return how far a list looks that is filtered by `wanted`, and by nothing else if `alone`."""
    found = by_index(jobs, wanted, where)
    sure, indexed = (found.sure, found.others) if alone else (set(), found.ids)
    ids = where.sorted(indexed)
    if found.is_whole:
        return of_indexed(where, ids, listing.MOST, frozenset(sure))
    near, last = next_to(jobs, where, NEXT)
    return Reach(where, ids[: listing.MOST], frozenset(sure), near, last, NEXT)


def of_indexed(
    where: Range, ids: list[int], count: int, sure: frozenset[int] = frozenset()
) -> Reach:
    """Return how far one looks who looks at the first `count` of these."""
    last = ids[count - 1] if len(ids) > count else None
    return Reach(where, ids[:count], sure, last=last, looked=count)


def next_to(jobs: QuerySet[Job], where: Range, count: int) -> tuple[Range, int | None]:
    """Return the first `count` jobs of a range, and the last of them; None if these are all."""
    bounded = where.of(jobs).order_by(where.order).values_list("pk", flat=True)
    with db.forced(jobs):
        ends = list(bounded[count - 1 : count + 1])
    if len(ends) < 2:
        return where, None
    last = ends[0]
    if where.oldest_first:
        return where.within(high=last + 1), last
    return where.within(low=last), last


class Indexed(NamedTuple):
    """What an index led to: ids of jobs that are wanted, of others that may be, and if all."""

    sure: set[int]
    others: set[int]
    is_whole: bool

    @property
    def ids(self) -> set[int]:
        """All of them."""
        return self.sure | self.others


def by_index(jobs: QuerySet[Job], wanted: Wanted, where: Range) -> Indexed:
    """Return what an index leads to of the jobs that are wanted.

    A fixed number of statements.
    """
    if wanted.group is not None:
        # In the list's own order, so that the first are right whatever there is beyond.
        [of_group] = db.first_keys(
            where.of(jobs),
            "leasequeue_group",
            [{"group": wanted.group}],
            listing.MOST + 1,
            [where.order],
        )
        return _sorted_out({*of_group}, wanted == Wanted(group=wanted.group), True)
    if wanted.schedule is not None:
        ticks = jobs.filter(schedule=wanted.schedule)
        ticks = ticks.order_by("tick" if where.oldest_first else "-tick")
        with db.forced(jobs, "leasequeue_tick"):
            made = {*ticks.values_list("pk", flat=True)[: listing.MOST + 1]}
        is_whole = len(made) <= listing.MOST
        return _sorted_out(made, wanted == Wanted(schedule=wanted.schedule), is_whole)
    if wanted == Wanted():
        return Indexed(set(), set(), False)
    parts = [*_by_status(jobs, wanted, where)]
    return Indexed(
        set().union(*(part.sure for part in parts)),
        set().union(*(part.others for part in parts)),
        all(part.is_whole for part in parts),
    )


def _sorted_out(ids: set[int], is_sure: bool, is_whole: bool) -> Indexed:
    return Indexed(ids, set(), is_whole) if is_sure else Indexed(set(), ids, is_whole)


def queues(jobs: QuerySet[Job]) -> list[str]:
    """Return the names of the queues that have jobs of any status, at most MOST_QUEUES."""
    return distinct(jobs.model._meta.db_table, "queue", MOST_QUEUES, jobs.db)


def _by_status(jobs: QuerySet[Job], wanted: Wanted, where: Range) -> Iterator[Indexed]:
    statuses = list(Status) if wanted.status is None else [wanted.status]
    final = sorted(FINAL.intersection(statuses))
    of_any_task = wanted.task is None
    of_any = of_any_task and wanted.queue is None
    if final:
        ended = finished(jobs, final, wanted.queue, wanted.task, where.oldest_first)
        yield _sorted_out(ended[0], True, ended[1])
    if Status.RUNNING in statuses:
        found, is_whole = _through(jobs, "leasequeue_lease", [{}], listing.MOST)
        yield _sorted_out(found, of_any, is_whole)
    if Status.PENDING in statuses:
        names = queues(jobs) if wanted.queue is None else [wanted.queue]
        lanes = [{"suspect": one, "queue": name} for name in names for one in (0, 1)]
        found, is_whole = _through(jobs, "leasequeue_claim", lanes, ENTRIES)
        yield _sorted_out(found, of_any_task, is_whole and len(names) < MOST_QUEUES)
        found, is_whole = _through(jobs, "leasequeue_awaits_slot", [{}], listing.MOST)
        yield _sorted_out(found, of_any, is_whole)
        waits = GroupWait.objects.using(jobs.db).order_by()
        found = {*waits.values_list("job_id", flat=True)[: listing.MOST + 1]}
        yield _sorted_out(found, False, len(found) <= listing.MOST)


def finished(
    jobs: QuerySet[Job],
    statuses: Sequence[str],
    queue: str | None,
    task: str | None,
    oldest_first: bool = False,
) -> tuple[set[int], bool]:
    """Return ids of jobs that have ended so, and whether these are all.

    Of each queue and task, those that ended last.
    """
    kinds = []
    table = jobs.model._meta.db_table
    for status in statuses:
        pairs = db.finished_kinds(table, Status(status), MOST_KINDS + 1, jobs.db)
        if len(pairs) > MOST_KINDS:
            return set(), False
        kinds += [
            {"status": status, "queue": its_queue, "task": its_task}
            for its_queue, its_task in pairs
            if queue in (None, its_queue) and task in (None, its_task)
        ]
    order = ["finished_at", "pk"] if oldest_first else ["-finished_at", "-pk"]
    return _through(jobs, "leasequeue_finished", kinds, ENTRIES, order)


def _through(
    jobs: QuerySet[Job],
    index: str,
    wheres: Sequence[dict[str, Any]],
    entries: int,
    order: Sequence[str] = (),
) -> tuple[set[int], bool]:
    if not wheres:
        return set(), True
    limit = max(entries // len(wheres), 1)
    parts = db.first_keys(jobs, index, wheres, limit + 1, order)
    return {pk for part in parts for pk in part}, max(map(len, parts)) <= limit
