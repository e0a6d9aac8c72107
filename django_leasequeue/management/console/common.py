"""What all verbs have: a database, a screen, and what was given."""

from argparse import ArgumentParser
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from django_leasequeue.fields import NOW
from django_leasequeue.management.terminal import Screen, as_json
from django_leasequeue.models import Job


@dataclass(frozen=True, slots=True)
class Console:
    """Where a verb is called. `given`: its options by name."""

    database: str
    screen: Screen
    warnings: Screen
    given: dict[str, Any]

    @property
    def jobs(self) -> QuerySet[Job]:
        """The jobs of the database, in no order."""
        return Job.objects.using(self.database).order_by()

    @property
    def wants_json(self) -> bool:
        """Whether a machine is to read it."""
        return self.given["json"]

    @property
    def is_quiet(self) -> bool:
        """Whether only errors are to be told."""
        return self.given["verbosity"] < 1

    def json(self, value: Any) -> None:
        """Print a JSON document."""
        self.screen.text(as_json(value), lines=True)


def with_now(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Return the jobs with the database's time at which they were read, as `now`."""
    return jobs.annotate(now=NOW)


def add_common(parser: ArgumentParser) -> None:
    """Add the options that every verb has."""
    parser.add_argument("--json", action="store_true", help="Print JSON, for machines.")
    parser.add_argument(
        "--database",
        choices=tuple(connections),
        help="The alias of the database that holds the jobs.",
    )
