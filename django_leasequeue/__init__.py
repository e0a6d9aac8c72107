"""A job queue in the database that a Django project already has."""

from django_leasequeue.concurrency import Concurrency
from django_leasequeue.dedup import Dedup
from django_leasequeue.exceptions import Discard, Retry, Snooze
from django_leasequeue.jobs import run_job
from django_leasequeue.origin import dispatched_by
from django_leasequeue.recurrence import cron, every
from django_leasequeue.specs import JobSpec
from django_leasequeue.tasks import Task, task

__all__ = [
    "Concurrency",
    "Dedup",
    "Discard",
    "JobSpec",
    "Retry",
    "Snooze",
    "Task",
    "cron",
    "dispatched_by",
    "every",
    "run_job",
    "task",
]
