"""The tables."""

from django_leasequeue.models.job import Job
from django_leasequeue.models.worker import Worker

__all__ = ["Job", "Worker"]
