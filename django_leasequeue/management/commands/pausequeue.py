"""`manage.py pausequeue NAME`: let no job of a queue start."""

import shlex
from argparse import ArgumentParser
from typing import Any

from django_leasequeue.management.queue_command import QueueCommand
from django_leasequeue.times import local_time


class Command(QueueCommand):
    """Pause a queue at all workers of the database."""

    help = (
        "Lets no job of this queue start, at any worker, until it is resumed. Running jobs "
        "go on, and dispatches wait. Exits with 0 if it is paused now, by this call or "
        "since before; with 1 if that could not be done."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See BaseCommand."""
        super().add_arguments(parser)
        parser.add_argument("--reason", default="", help="Why, for others to read.")

    def act(self, queues: Any, name: str, by: str, given: dict[str, Any]) -> str:
        """See QueueCommand."""
        if queues.pause(name, by=by, reason=given["reason"]):
            return (
                f"Paused queue {name!r}. None of its jobs starts until 'manage.py "
                f"resumequeue {shlex.quote(name)}'."
            )
        row = queues.filter(name=name).paused().first()
        if row is None:
            return f"Queue {name!r} was paused, and somebody has resumed it just now."
        since = local_time(row.paused_at)
        by = f" by {row.paused_by}" if row.paused_by else ""
        why = f": {row.reason}" if row.reason else "."
        return f"Queue {name!r} is paused already, since {since}{by}{why}"
