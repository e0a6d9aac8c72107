"""Pending jobs that this code can't run as they are: for `manage.py check --database`.

A check is not to take long, and no index leads to the tasks of pending jobs: so it looks at
some jobs of each queue.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db.models import QuerySet

from django_leasequeue import db, registry
from django_leasequeue.db.distinct import distinct
from django_leasequeue.models import GroupWait, Job
from django_leasequeue.states import Status

# Tasks that are told of; jobs whose tasks are read, and whose arguments.
MOST_TASKS = 20
MOST_NAMED, MOST_JOBS = 10_000, 1_000
# Queues that are looked at, and jobs in one statement.
_QUEUES, _ROWS = 200, 500


class Unknown(NamedTuple):
    """Pending jobs of a task that nobody registered; `first`: the lowest id."""

    task: str
    number: int
    first: int


class Misfit(NamedTuple):
    """Pending jobs whose arguments don't fit the function; `first`: one of them, and why."""

    task: str
    number: int
    first: int
    why: str


def unknown_tasks(using: str) -> list[Unknown]:
    """Return the tasks of pending jobs that the registry lacks, by name.

    Of up to MOST_NAMED jobs. All modules of tasks have to be imported before.
    """
    found: dict[str, Unknown] = {}
    for jobs in _pending(using, MOST_NAMED):
        rows = jobs.exclude(task__in=registry.all_names())
        for pk, task in rows.values_list("pk", "task"):
            known = found.get(task) or Unknown(task, 0, pk)
            found[task] = known._replace(number=known.number + 1)
    return [found[task] for task in sorted(found)][:MOST_TASKS]


def misfits(using: str) -> list[Misfit]:
    """Return the tasks of pending jobs that fail at once, since their arguments don't bind.

    Of up to MOST_JOBS jobs.
    """
    found: dict[str, Misfit] = {}
    for pk, task, why in _unbound(using):
        known = found.get(task) or Misfit(task, 0, pk, why)
        found[task] = known._replace(number=known.number + 1)
    return [found[task] for task in sorted(found)][:MOST_TASKS]


def _unbound(using: str) -> Iterator[tuple[int, str, str]]:
    for jobs in _pending(using, MOST_JOBS):
        rows = jobs.filter(task__in=registry.all_names())
        columns: Any = rows.values_list("pk", "task", "args", "kwargs")
        for pk, task, args, kwargs in columns.iterator(chunk_size=100):
            if not isinstance(args, list) or not isinstance(kwargs, dict):
                yield pk, task, "they are no JSON list and object."
                continue
            try:
                registry.get(task).bind(args, kwargs)
            except TypeError as error:
                yield pk, task, str(error)


def _pending(using: str, most: int) -> Iterator[QuerySet[Job]]:
    """Yield up to `most` pending jobs by id, in parts: of each queue as many as of the others.

    Those that may be claimed come before those that wait for a slot or a group.
    """
    jobs = Job.objects.using(using)
    queues = distinct(Job._meta.db_table, "queue", _QUEUES, using)
    lanes = [{"suspect": one, "queue": queue} for queue in queues for one in (0, 1)]
    share = max(most // max(len(lanes), 1), 1)
    parts = db.first_keys(jobs, "leasequeue_claim", lanes, share)
    parts += db.first_keys(jobs, "leasequeue_awaits_slot", [{}], most)
    waits = GroupWait.objects.using(using).order_by().values_list("job_id", flat=True)
    ids = sorted([pk for part in [*parts, waits[:most]] for pk in part][:most])
    for start in range(0, len(ids), _ROWS):
        some = ids[start : start + _ROWS]
        yield db.by_key(jobs, some, status=Status.PENDING).order_by("pk")
