"""Finding jobs among millions, by what an index or the newest rows can answer."""

from django.db.models import Max, Q, QuerySet

from django_leasequeue.db.distinct import distinct
from django_leasequeue.dedup import MAX_LENGTH

# No index leads to tasks, groups and parts of ids, so these are looked for among the newest
# jobs only: half a second on the slowest of the databases, whatever the table holds.
NEWEST = 50_000
# Jobs found that way, newest first.
MOST_FOUND = 1_000
# Queues that are named in filters and searches.
MOST_QUEUES = 200
LARGEST_ID = 2**63 - 1


def matching(jobs: QuerySet, text: str) -> QuerySet:
    """Return those of the jobs that a search finds.

    By their id or whole dedup id; or among the newest by a part of the task, the group, or
    a dedup id that they hold or have held.
    """
    words = {text, text.strip()} - {""}
    if not text.strip():
        return jobs
    if len(text) > MAX_LENGTH:
        return jobs.none()
    # Ids first, then rows: with an OR over all of it no database would use its indexes.
    found = {*_by_dedup_id(jobs, words), *_among_newest(jobs, text.strip())}
    number = _as_id(text)
    if number is not None:
        found.add(number)
    return jobs.filter(pk__in=found)


def queues(jobs: QuerySet) -> list[str]:
    """Return the names of the queues that have jobs of any status, at most MOST_QUEUES."""
    return distinct(jobs.model._meta.db_table, "queue", MOST_QUEUES, jobs.db)


def _by_dedup_id(jobs: QuerySet, words: set[str]):
    # The unique index begins with the queue.
    named = jobs.filter(queue__in=queues(jobs), dedup_id__in=words)
    return named.order_by().values_list("pk", flat=True)[:MOST_FOUND]


def _among_newest(jobs: QuerySet, word: str):
    newest = jobs.model._base_manager.using(jobs.db).aggregate(newest=Max("pk"))[
        "newest"
    ]
    parts = Q()
    for name in ("task", "group", "dedup_id", "released_dedup_id"):
        parts |= Q(**{f"{name}__contains": word})
    return (
        jobs.filter(parts, pk__gt=(newest or 0) - NEWEST)
        .order_by("-pk")
        .values_list("pk", flat=True)[:MOST_FOUND]
    )


def _as_id(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if 0 < number <= LARGEST_ID else None
