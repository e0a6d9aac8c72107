"""The tables."""

from django_leasequeue.models.duty import Duty
from django_leasequeue.models.group_wait import GroupWait
from django_leasequeue.models.job import Job
from django_leasequeue.models.queue import Queue
from django_leasequeue.models.schedule import Schedule
from django_leasequeue.models.slots import Slots
from django_leasequeue.models.step import Step
from django_leasequeue.models.tally import Tally
from django_leasequeue.models.worker import Worker

__all__ = [
    "Duty",
    "GroupWait",
    "Job",
    "Queue",
    "Schedule",
    "Slots",
    "Step",
    "Tally",
    "Worker",
]
