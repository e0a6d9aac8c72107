"""Everything that happened to a job, in order of time: see `job.timeline()`."""

from django_leasequeue.history.event import Event, Kind
from django_leasequeue.history.read import MOST_STEPS, read, steps_of
from django_leasequeue.history.timeline import timeline

__all__ = ["MOST_STEPS", "Event", "Kind", "read", "steps_of", "timeline"]
