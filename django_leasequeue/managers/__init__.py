"""The verbs of the queue and the adjectives of its rows, on `Job.objects`.

Each verb is one line; the room it leads to is in `transitions`.
"""

from django_leasequeue.managers.dispatching import Dispatch
from django_leasequeue.managers.jobs import JobManager, JobQuerySet
from django_leasequeue.managers.rows import VerbQuerySet

__all__ = ["Dispatch", "JobManager", "JobQuerySet", "VerbQuerySet"]
