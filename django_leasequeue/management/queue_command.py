"""What `pausequeue` and `resumequeue` have in common."""

import contextlib
import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections, router

from django_leasequeue import discovery
from django_leasequeue.management.refusals import refusals_told
from django_leasequeue.models import Queue
from django_leasequeue.worker.known_queues import misspelt, unknown_queues


class QueueCommand(BaseCommand):
    """A command about one queue, as whoever calls it."""

    # It has to work also, and above all, when the project's code is broken.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See BaseCommand."""
        parser.add_argument("name", help="The queue's exact name.")
        parser.add_argument(
            "--by", help="Who wants it so. Default: the user of the operating system."
        )
        parser.add_argument(
            "--database",
            choices=tuple(connections),
            help="The alias of the database that holds the jobs.",
        )

    def handle(self, *args: Any, **given: Any) -> None:
        """Do it and say what came of it. Raise CommandError for what can't be a name."""
        queues = Queue.objects.using(given["database"] or router.db_for_write(Queue))
        name = given["name"]
        by = _user() if given["by"] is None else given["by"]
        try:
            with refusals_told(queues):
                said = self.act(queues, name, by, given)
        except ValueError as error:
            raise CommandError(str(error)) from error
        if given["verbosity"] > 0:
            self.stdout.write(said)
            self._warn(name, queues.db)

    def act(self, queues: Any, name: str, by: str, given: dict[str, Any]) -> str:
        """Do it; return a sentence about it."""
        raise NotImplementedError

    def _warn(self, name: str, using: str) -> None:
        """Say if the name may be misspelt, as far as that can be told."""
        with contextlib.suppress(Exception):
            discovery.autodiscover()
            if unknown_queues([name], using):
                self.stderr.write(self.style.WARNING(misspelt(name)))


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return ""  # a process in a container may have no name
