"""All there is to see at one moment: what the dashboard shows, and monitoring reads as JSON."""

from dataclasses import dataclass
from typing import Any

from django_leasequeue.monitoring.failures import LastFailure, last_failures
from django_leasequeue.monitoring.figures import Figures, figures
from django_leasequeue.monitoring.health import Health, Limits, judged
from django_leasequeue.monitoring.history import History, history
from django_leasequeue.monitoring.running import RunningJob, running
from django_leasequeue.monitoring.schedules import ScheduleFigures, schedules


@dataclass(frozen=True, slots=True)
class Overview:
    """The figures, whether they are well, what runs, what failed last, the schedules.

    `more_running`: whether more jobs run than are told.
    """

    figures: Figures
    health: Health
    running: list[RunningJob]
    more_running: bool
    last_failures: list[LastFailure]
    schedules: list[ScheduleFigures]
    history: History

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            **self.figures.as_dict(),
            "problems": self.health.as_dict()["problems"],
            "running": [one.as_dict() for one in self.running],
            "more_running": self.more_running,
            "last_failures": [one.as_dict() for one in self.last_failures],
            "schedules": [one.as_dict() for one in self.schedules],
            "history": self.history.as_dict(),
        }


def overview(using: str, window: float = 3600.0) -> Overview:
    """Read it all: eighteen statements, whatever the tables hold."""
    found = figures(using, window)
    runs, more = running(using)
    return Overview(
        figures=found,
        health=judged(found, Limits(window=window)),
        running=runs,
        more_running=more,
        last_failures=last_failures(using, found.failures),
        schedules=schedules(using),
        history=history(using),
    )
