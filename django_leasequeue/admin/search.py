"""Finding jobs among millions, by what an index or the next rows of a list can answer."""

import contextlib
import json
from collections.abc import Iterable

from django.db.models import Q, QuerySet

from django_leasequeue import registry
from django_leasequeue.admin import listing
from django_leasequeue.admin.reach import (
    Range,
    Reach,
    Wanted,
    by_index,
    finished,
    queues,
    reach,
)
from django_leasequeue.dedup import MAX_LENGTH
from django_leasequeue.models import Job
from django_leasequeue.states import FINAL

# Jobs in whose arguments a text is looked for: milliseconds with short ones, and a second or
# two where each has tens of kilobytes.
ARGUMENTS = 2_000
# Jobs that have the text in a part of theirs, the first of the list.
MOST_FOUND = 1_000
LARGEST_ID = 2**63 - 1
# Columns of which a part is enough.
PARTS = ("task", "group", "dedup_id", "released_dedup_id")


def whole(rows: QuerySet[Job], text: str, where: Range) -> list[int]:
    """Return the ids of those of the rows whose id, dedup id or group is the text.

    However far from the list's begin they are: each by its index.
    """
    if not text.strip() or len(text) > MAX_LENGTH:
        return []
    ids = where.sorted(_called(rows, text))[: listing.MOST + 1]
    return Reach(where, ids).ids(rows, listing.MOST)


def parts(
    rows: QuerySet[Job], text: str, within: Reach, arguments: Reach | None
) -> list[int]:
    """Return the ids of those of the rows that have the text in a part of theirs.

    As far as `within` looks: in a task, a group, or a dedup id that they hold or have held;
    and as far as `arguments` does, in these. Of a task that is called so also those that ended
    last, however far they are.
    """
    word = text.strip()
    if not word or len(text) > MAX_LENGTH:
        return []
    where = within.where
    found = {*within.ids(rows.filter(_has(word, PARTS)), MOST_FOUND)}
    of_task, _ = finished(
        _jobs(rows), sorted(FINAL), None, word, oldest_first=where.oldest_first
    )
    if of_task:
        of_task_sorted = where.sorted(of_task)[: listing.MOST]
        found.update(Reach(where, of_task_sorted).ids(rows, listing.MOST))
    if arguments is not None:
        open_rows = rows.filter(task__in=_open_tasks())
        found.update(arguments.ids(open_rows.filter(_in_arguments(word)), MOST_FOUND))
    return where.sorted(found)[: listing.MOST + 1]


def anywhere(rows: QuerySet[Job], text: str) -> QuerySet[Job]:
    """Return those of the rows that a search finds for whoever has no list of them."""
    if not text.strip():
        return rows
    where = Range()
    ids = whole(rows, text, where)
    ids = ids or parts(rows, text, reach(_jobs(rows), Wanted(), where, False), None)
    return rows.filter(pk__in=ids[:MOST_FOUND])


def _jobs(rows: QuerySet[Job]) -> QuerySet[Job]:
    return Job._base_manager.using(rows.db).order_by()


def _called(rows: QuerySet[Job], text: str) -> set[int]:
    """Return ids of jobs that are called so."""
    jobs, word = _jobs(rows), text.strip()
    # Ids first, then rows: with an OR over all of it no database would use its indexes.
    number = _as_id(text)
    found = set() if number is None else {number}
    # The unique index begins with the queue.
    named = jobs.filter(queue__in=queues(jobs), dedup_id__in={text, word})
    found.update(named.values_list("pk", flat=True))
    return found | by_index(jobs, Wanted(group=word), Range()).ids


def _has(word: str, columns: Iterable[str]) -> Q:
    parts = Q()
    for name in columns:
        parts |= Q(**{f"{name}__contains": word})
    return parts


def _in_arguments(word: str) -> Q:
    # As it stands in a text of the JSON, and as JSON that was typed.
    words = {word, json.dumps(word)[1:-1]}
    with contextlib.suppress(ValueError, RecursionError):
        words.add(json.dumps(json.loads(word), separators=(",", ":")))
    parts = Q()
    for one in words:
        parts |= _has(one, ("args", "kwargs"))
    return parts


def _open_tasks() -> list[str]:
    """Return the tasks whose arguments may be looked into: those that hide nothing.

    Of a task that is not known here nobody can say.
    """
    hiding = set(registry.redacting())
    return [name for name in registry.names() if name not in hiding]


def _as_id(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if 0 < number <= LARGEST_ID else None
