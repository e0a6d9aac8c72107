"""A job queue in the database that a Django project already has."""

from django_leasequeue.dedup import Dedup
from django_leasequeue.exceptions import Discard, Retry, Snooze
from django_leasequeue.jobs import run_job
from django_leasequeue.specs import JobSpec
from django_leasequeue.tasks import Task, task

__all__ = ["Dedup", "Discard", "JobSpec", "Retry", "Snooze", "Task", "run_job", "task"]
