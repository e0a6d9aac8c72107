"""`manage.py checkjobs`: whether the queue is well, by the exit code."""

import contextlib
import socket
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connections, router

from django_leasequeue import db, discovery
from django_leasequeue.management.terminal import Screen, a_span, as_json, told
from django_leasequeue.models import Job
from django_leasequeue.monitoring import Health, Limits, health
from django_leasequeue.worker import bounded
from django_leasequeue.worker.known_queues import misspelt, unknown_queues
from django_leasequeue.worker.log import counted


class Command(BaseCommand):
    """Ask the database and judge by thresholds: for monitoring, and as a probe."""

    help = (
        "Exits with 0 if all is well, with 1 if something is beyond its threshold, with 2 "
        "if that could not be asked. Spans are seconds, or such as 15m, 2h, 7d."
    )
    # A probe, which also has to work when the project's code is broken.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See BaseCommand."""
        usual = Limits()
        parser.add_argument(
            "--max-age",
            type=_span_or_none,
            default=usual.max_age,
            metavar="SPAN",
            help="How long a ready job may have waited for a worker; none: ask not. "
            "Default: 300.",
        )
        parser.add_argument(
            "--max-late",
            type=_span_or_none,
            default=usual.max_late,
            metavar="SPAN",
            help="How long the tick of a schedule may be overdue; none: ask not, and neither "
            "with --queue. Default: 300.",
        )
        parser.add_argument(
            "--max-failures",
            type=int,
            metavar="N",
            help="How many jobs may have failed for good within --window.",
        )
        parser.add_argument(
            "--window",
            type=a_span,
            default=usual.window,
            metavar="SPAN",
            help="How far back failures are counted. Default: 1h.",
        )
        parser.add_argument(
            "--max-silent",
            type=int,
            metavar="N",
            help="How many workers may have vanished without a word in the last day.",
        )
        parser.add_argument(
            "--queue",
            action="append",
            default=[],
            metavar="NAME",
            help="Judge this queue alone; may be given several times.",
        )
        parser.add_argument(
            "--host",
            nargs="?",
            const=socket.gethostname(),
            metavar="NAME",
            help="Ask for a worker of this host (this very one unless named) that was seen "
            "in the last minute: a liveness probe in the worker's own container.",
        )
        parser.add_argument(
            "--no-worker-needed",
            action="store_true",
            help="Don't ask for a live worker for each queue with ready jobs.",
        )
        parser.add_argument("--json", action="store_true", help="Print JSON.")
        parser.add_argument(
            "--database",
            choices=tuple(connections),
            help="The alias of the database that holds the jobs.",
        )

    def handle(self, *args: Any, **given: Any) -> None:
        """Print what is wrong. Raise CommandError if anything is."""
        limits = Limits(
            max_age=given["max_age"],
            max_late=given["max_late"],
            max_failures=given["max_failures"],
            window=given["window"],
            max_silent=given["max_silent"],
            queues=tuple(given["queue"]),
            host=given["host"],
            need_workers=not given["no_worker_needed"],
        )
        database = given["database"] or router.db_for_write(Job)
        found = _asked(database, limits)
        if given["json"]:
            answer = {**found.as_dict(), "figures": found.figures.as_dict()}
            self.stdout.write(as_json(answer))
        elif given["verbosity"] > 0:
            screen = Screen(self.stdout)
            for problem in found.problems:
                screen.text(problem.sentence)
            if found.is_well:
                screen.text("All is well.")
        if given["verbosity"] > 0:
            self._warn(database, limits, found)
        if not found.is_well:
            number = counted(len(found.problems), "problem")
            raise CommandError(f"{number} found.", returncode=1)

    def _warn(self, database: str, limits: Limits, found: Health) -> None:
        """Say which queues may be misspelt, as far as that can be told."""
        seen = {queue.name for queue in found.figures.queues}
        names = [name for name in limits.queues if name not in seen]
        if not names:
            return
        with contextlib.suppress(Exception):
            try:
                discovery.autodiscover()
                with bounded.Bounded(database):
                    unknown = unknown_queues(names, database)
            finally:
                bounded.let_go(database)
            for name in unknown:
                self.stderr.write(self.style.WARNING(misspelt(name)))


def _asked(database: str, limits: Limits) -> Health:
    try:
        # A database that does not answer is the very thing to tell.
        jobs = Job.objects.using(database)
        with bounded.Bounded(database), db.saying_what_to_migrate(jobs):
            return health(database, limits)
    except Error as error:
        why = told(error)
        raise CommandError(
            f"The database {database!r} could not be asked: {why}", returncode=2
        ) from error
    finally:
        bounded.let_go(database)


def _span_or_none(text: str) -> float | None:
    return None if text == "none" else a_span(text)
