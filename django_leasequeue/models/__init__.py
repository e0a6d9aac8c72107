"""The tables."""

from django_leasequeue.models.duty import Duty
from django_leasequeue.models.job import Job
from django_leasequeue.models.queue import Queue
from django_leasequeue.models.step import Step
from django_leasequeue.models.worker import Worker

__all__ = ["Duty", "Job", "Queue", "Step", "Worker"]
