"""`manage.py jobs VERB`: jobs, schedules and workers, for people."""

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import router

from django_leasequeue.management.console import HELP, VERBS, Console
from django_leasequeue.management.refusals import refusals_told
from django_leasequeue.management.terminal import Screen
from django_leasequeue.models import Job


class Command(BaseCommand):
    """Look at jobs, ask why they don't run, and change what becomes of them."""

    help = HELP
    # It has to work also, and above all, when the project's code is broken.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See BaseCommand."""
        verbs = parser.add_subparsers(dest="verb", metavar="VERB")
        for name, verb in VERBS.items():
            verb.add_arguments(
                verbs.add_parser(name, help=verb.HELP, description=verb.HELP)
            )

    def handle(self, *args: Any, **given: Any) -> None:
        """Do what was asked for. Raise CommandError unless all of it was done."""
        if given["verb"] is None:
            raise CommandError(
                f"Say what to do: manage.py jobs {'|'.join(VERBS)}. With --help after it, "
                "each tells its options.",
                returncode=2,
            )
        color = None
        if given["no_color"] or "NO_COLOR" in os.environ:
            color = False
        elif given["force_color"]:
            color = True
        console = Console(
            database=given["database"] or router.db_for_write(Job),
            screen=Screen(self.stdout, color),
            warnings=Screen(self.stderr, color),
            given=given,
        )
        with refusals_told(console.jobs):
            undone = VERBS[given["verb"]].run(console)
        if undone:
            raise CommandError(undone, returncode=1)
