"""Which jobs wait for a worker: how many are due, and what a drain leaves behind."""

from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.selection import Selection
from django_leasequeue.worker.log import counted
from django_leasequeue.worker.options import WorkerOptions


def due_jobs(options: WorkerOptions) -> int:
    """Return how many jobs are due in the queues that the worker takes."""
    jobs: QuerySet[Job] = Job.objects.using(options.database).due()
    return jobs.filter(_taken(options.selection)).count()


def jobs_left(options: WorkerOptions) -> str:
    """Return a sentence about the jobs that still wait, "" if there are none."""
    taken, due = _taken(options.selection), Q(run_at__lte=DatabaseNow())
    numbers = (
        Job.objects.using(options.database)
        .pending()
        .aggregate(
            due=Count("pk", filter=taken & due),
            later=Count("pk", filter=taken & ~due),
            others=Count("pk", filter=~taken),
            next_at=Min("run_at", filter=taken & ~due),
        )
    )
    parts = []
    if numbers["due"]:
        parts.append(f"{numbers['due']} due")
    if numbers["later"]:
        next_at = timezone.localtime(numbers["next_at"])
        parts.append(
            f"{numbers['later']} not due yet (the next at {next_at:%Y-%m-%d %H:%M:%S %Z})"
        )
    if numbers["others"]:
        parts.append(f"{numbers['others']} in queues that this worker does not take")
    total = numbers["due"] + numbers["later"] + numbers["others"]
    return (
        f"Still waiting: {counted(total, 'job')}: {', '.join(parts)}." if total else ""
    )


def _taken(selection: Selection) -> Q:
    excluded = Q(queue__in=sorted(selection.exclude))
    if selection.takes_all:
        return ~excluded
    return Q(queue__in=selection.named) & ~excluded
