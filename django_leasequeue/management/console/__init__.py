"""The verbs of `manage.py jobs`, one a module: `HELP`, `add_arguments` and `run`."""

from argparse import ArgumentParser
from typing import Protocol

from django_leasequeue.management.console import (
    cancel,
    delete,
    listing,
    release,
    retry,
    run_now,
    schedules,
    show,
    stats,
    why,
    workers,
)
from django_leasequeue.management.console.common import Console

__all__ = ["HELP", "VERBS", "Console"]


class Verb(Protocol):
    """What each of these modules is."""

    @property
    def HELP(self) -> str:
        """The sentence in the command's help."""
        ...

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the verb's options."""

    def run(self, console: Console) -> str | None:
        """Do it; return what could not be done, which ends the process with 1."""


HELP = (
    "Shows jobs, tells why they don't run, and changes them. Exits with 0 if all "
    "was done, with 1 if some of it could not be done, such as for a job that is not "
    "there, with 2 if the command itself is wrong."
)
VERBS: dict[str, Verb] = {
    "list": listing,
    "show": show,
    "why": why,
    "retry": retry,
    "cancel": cancel,
    "run-now": run_now,
    "release": release,
    "delete": delete,
    "stats": stats,
    "schedules": schedules,
    "workers": workers,
}
