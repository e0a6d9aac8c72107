"""`manage.py syncschedules`: store what the code declares now, as workers do at their start."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections, router

from django_leasequeue import discovery
from django_leasequeue.management.refusals import refusals_told
from django_leasequeue.models import Schedule
from django_leasequeue.schedules import declare


class Command(BaseCommand):
    """See docs/schedules.md."""

    help = (
        "Stores the schedules that tasks declare, as each worker does at its start. For "
        "deployments that want to see them before a worker runs."
    )

    def add_arguments(self, parser: Any) -> None:
        """See BaseCommand."""
        parser.add_argument(
            "--database",
            choices=tuple(connections),
            help="The alias of the database that holds the jobs.",
        )

    def handle(self, *args: Any, database: str | None = None, **options: Any) -> None:
        """Declare, and say what has changed."""
        discovery.autodiscover()
        schedules = Schedule.objects.using(database or router.db_for_write(Schedule))
        with refusals_told(schedules):
            done = declare(schedules.db)
        said = [
            f"{word.capitalize()}: {', '.join(sorted(names))}."
            for word, names in done._asdict().items()
            if names and word not in ("clashing", "busy")
        ]
        self.stdout.write("\n".join(said) or "Nothing to change.")
        for name in sorted(done.clashing):
            self.stderr.write(
                f"The admin has a schedule {name}, so that of the code is not in force."
            )
        for name in sorted(done.busy):
            self.stderr.write(
                f"Somebody else is at the schedule {name}: run this again."
            )
