"""A schedule makes a job: at a tick, or because somebody wants one now."""

from django_leasequeue.firing.jobs import check
from django_leasequeue.firing.now import run_now
from django_leasequeue.firing.tick import Fired, ScheduledTick, fire

__all__ = ["Fired", "ScheduledTick", "check", "fire", "run_now"]
