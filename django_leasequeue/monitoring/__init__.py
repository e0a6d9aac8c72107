"""What people and probes ask about the whole queue: by index, bounded, without a lock.

`figures` are numbers; `health` says whether they are as they should be; `overview` is all of it.
"""

from django_leasequeue.monitoring.failures import Failures, LastFailure, failures
from django_leasequeue.monitoring.figures import Figures, figures
from django_leasequeue.monitoring.health import Health, Limits, Problem, health
from django_leasequeue.monitoring.history import Bar, History
from django_leasequeue.monitoring.overview import Overview, overview
from django_leasequeue.monitoring.queues import MOST_COUNTED, QueueFigures
from django_leasequeue.monitoring.running import MOST_RUNNING, RunningJob, running
from django_leasequeue.monitoring.schedules import ScheduleFigures
from django_leasequeue.monitoring.workers import WorkerFigures, workers

__all__ = [
    "MOST_COUNTED",
    "MOST_RUNNING",
    "Bar",
    "Failures",
    "Figures",
    "Health",
    "History",
    "LastFailure",
    "Limits",
    "Overview",
    "Problem",
    "QueueFigures",
    "RunningJob",
    "ScheduleFigures",
    "WorkerFigures",
    "failures",
    "figures",
    "health",
    "overview",
    "running",
    "workers",
]
