"""Which jobs are meant: by id, queue, task, status, group and age."""

import contextlib
from argparse import ArgumentParser

from django.core.management.base import CommandError
from django.db.models import QuerySet

from django_leasequeue import db, discovery, registry
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.management.console.common import Console
from django_leasequeue.management.terminal import a_span
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.worker.known_queues import misspelt, unknown_queues

_FILTERS = ("queue", "task", "status", "group", "older_than")


def add_filters(parser: ArgumentParser, *, limit: int) -> None:
    """Add the options by which jobs are chosen. `limit`: at most so many unless given."""
    parser.add_argument("--queue", metavar="NAME", help="Of this queue.")
    parser.add_argument(
        "--task", metavar="NAME", help="Of this task, under any of its names."
    )
    parser.add_argument(
        "--status",
        action="append",
        choices=[status.value for status in Status],
        help="In this status; may be given several times.",
    )
    parser.add_argument("--group", metavar="LABEL", help="Of this group.")
    parser.add_argument(
        "--older-than",
        type=a_span,
        metavar="SPAN",
        help="Dispatched longer ago than this: seconds, or such as 15m, 2h, 7d.",
    )
    parser.add_argument(
        "--limit",
        type=_a_limit,
        default=limit,
        metavar="N",
        help=f"At most so many, the newest first. Default: {limit}.",
    )


def add_ids(parser: ArgumentParser) -> None:
    """Add the ids, in whose place filters may be given."""
    parser.add_argument("ids", nargs="*", type=int, metavar="ID", help="A job's id.")


def is_filtered(console: Console) -> bool:
    """Whether any filter was given."""
    return any(console.given[name] is not None for name in _FILTERS)


def chosen(console: Console, statuses: list[str] | None = None) -> QuerySet[Job]:
    """Return the jobs that the filters leave, newest first. `statuses`: unless given."""
    given, jobs = console.given, console.jobs.order_by("-pk")
    statuses = given["status"] or statuses
    if statuses:
        jobs = jobs.filter(status__in=statuses)
    if given["queue"] is not None:
        jobs = jobs.filter(queue=given["queue"])
    if given["task"] is not None:
        jobs = jobs.filter(task__in=_names(given["task"]))
    if given["group"] is not None:
        jobs = jobs.filter(group=given["group"])
    if given["older_than"] is not None:
        jobs = jobs.filter(created_at__lt=db.DatabaseNow(-given["older_than"]))
    return jobs


def warn_of_misspelt(console: Console) -> None:
    """Say which names nothing speaks for, as far as that can be told: nothing was found."""
    given = console.given
    with contextlib.suppress(Exception):
        discovery.autodiscover()
        if given["task"] is not None:
            try:
                registry.resolve(given["task"])
            except UnknownTask as error:
                console.warnings.text(str(error))
        if given["queue"] is not None and unknown_queues(
            [given["queue"]], console.database
        ):
            console.warnings.text(misspelt(given["queue"]))


def _names(task: str) -> list[str]:
    # Also a task whose code is gone has jobs.
    with contextlib.suppress(Exception):
        options = registry.resolve(task)
        return [options.name, *options.aliases]
    return [task]


def _a_limit(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def wrong(message: str) -> CommandError:
    """Return the error of a command that makes no sense as it was given."""
    return CommandError(message, returncode=2)
