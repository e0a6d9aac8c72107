"""Which jobs wait for a worker: how many are due, and what a drain leaves behind."""

from django.db.models import Count, Min, Q, QuerySet

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Queue
from django_leasequeue.selection import Selection
from django_leasequeue.times import local_time
from django_leasequeue.worker.log import counted
from django_leasequeue.worker.options import WorkerOptions


def due_jobs(options: WorkerOptions) -> int:
    """Return how many jobs are due in the queues that the worker takes now."""
    jobs: QuerySet[Job] = Job.objects.using(options.database).due().filter(blocked=0)
    return jobs.filter(_taken(options.selection) & ~_paused(options)).count()


def jobs_left(options: WorkerOptions) -> str:
    """Return a sentence about the jobs that still wait, "" if there are none."""
    taken, due = _taken(options.selection), Q(run_at__lte=DatabaseNow())
    paused = taken & _paused(options)
    behind, free = taken & ~paused & ~Q(blocked=0), taken & ~paused & Q(blocked=0)
    now, later = free & due, free & ~due
    pending: QuerySet[Job] = Job.objects.using(options.database).pending()
    numbers = pending.aggregate(
        due=Count("pk", filter=now),
        later=Count("pk", filter=later),
        behind=Count("pk", filter=behind),
        paused=Count("pk", filter=paused),
        others=Count("pk", filter=~taken),
        next_at=Min("run_at", filter=later),
    )
    parts = []
    if numbers["due"]:
        parts.append(f"{numbers['due']} due")
    if numbers["later"]:
        next_at = local_time(numbers["next_at"])
        parts.append(f"{numbers['later']} not due yet (the next at {next_at})")
    if numbers["behind"]:
        parts.append(f"{numbers['behind']} until other jobs have ended")
    if numbers["paused"]:
        held = pending.filter(paused).order_by("queue").values_list("queue", flat=True)
        names = ", ".join(held.distinct())
        parts.append(f"{numbers['paused']} in paused queues ({names})")
    if numbers["others"]:
        parts.append(f"{numbers['others']} in queues that this worker does not take")
    total = sum(
        numbers[kind] for kind in ("due", "later", "behind", "paused", "others")
    )
    return (
        f"Still waiting: {counted(total, 'job')}: {', '.join(parts)}." if total else ""
    )


def _paused(options: WorkerOptions) -> Q:
    paused = Queue.objects.using(options.database).paused()
    return Q(queue__in=list(paused.values_list("name", flat=True)))


def _taken(selection: Selection) -> Q:
    excluded = Q(queue__in=sorted(selection.exclude))
    if selection.takes_all:
        return ~excluded
    return Q(queue__in=selection.named) & ~excluded
