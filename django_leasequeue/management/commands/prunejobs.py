"""`manage.py prunejobs`: remove finished jobs that are to be kept no longer."""

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections, router

from django_leasequeue import discovery
from django_leasequeue.management.refusals import refusals_told
from django_leasequeue.models import Job
from django_leasequeue.worker.handlers import handled, stopper
from django_leasequeue.worker.known_queues import tasks_own, unknown_queues
from django_leasequeue.worker.stop import Stop


class Command(BaseCommand):
    """Prune once, as workers do in the background. By hand, by cron, beside them or not."""

    help = (
        "Removes finished jobs that RETENTION keeps no longer, and says how many. Workers do "
        "the same in the background. SIGTERM or Ctrl-C ends it early, with 0: what is "
        "removed is removed, and nothing is half done."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See BaseCommand."""
        parser.add_argument(
            "--dry-run", action="store_true", help="Only say how many there are."
        )
        parser.add_argument("--queue", help="Only the jobs of this queue.")
        parser.add_argument(
            "--database",
            choices=tuple(connections),
            help="The alias of the database that holds the jobs.",
        )

    def handle(self, *args: Any, **given: Any) -> None:
        """Prune to the end, or until a signal comes."""
        # A task that can't be imported could keep its jobs longer: nothing is removed then.
        discovery.autodiscover()
        stop = Stop(lambda: None)
        jobs = Job.objects.using(given["database"] or router.db_for_write(Job))
        with refusals_told(jobs), handled(stopper(stop)):
            counts = jobs.prune(
                queue=given["queue"],
                dry_run=given["dry_run"],
                after_step=lambda: not stop.asked,
            )
            queues = [given["queue"]] if given["queue"] and not counts else []
            if unknown_queues(queues, jobs.db):
                raise CommandError(
                    f"No task names the queue {given['queue']!r} and no job is in it. "
                    f"Misspelt? The tasks' own queues are {tasks_own()}."
                )
        if given["verbosity"] > 0:
            self.stdout.write(_sentence(counts, given["dry_run"]))
            if stop.asked:
                self.stdout.write(f"Ended early by {stop.why}.")


def _sentence(counts: Counter[str], dry_run: bool) -> str:
    total = counts.total()
    jobs = "1 job" if total == 1 else f"{total:,} jobs"
    done = f"Would remove {jobs}" if dry_run else f"Removed {jobs}"
    parts = [f"{count:,} {status}" for status, count in sorted(counts.items())]
    return f"{done}: {', '.join(parts)}." if parts else f"{done}."
