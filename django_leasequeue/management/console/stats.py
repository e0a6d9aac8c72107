"""`jobs stats`: how the queues are."""

from argparse import ArgumentParser
from typing import Any

from django_leasequeue.management.console.common import Console, add_common
from django_leasequeue.management.terminal import a_span
from django_leasequeue.monitoring import MOST_COUNTED, QueueFigures, figures
from django_leasequeue.times import span
from django_leasequeue.worker.log import counted

HELP = (
    "Show each queue: what is ready and since when, what waits and runs; and failures."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--window",
        type=a_span,
        default=3600.0,
        metavar="SPAN",
        help="How far back failures are counted. Default: 1h.",
    )
    add_common(parser)


def run(console: Console) -> str | None:
    """Print the figures."""
    found = figures(console.database, console.given["window"])
    if console.wants_json:
        console.json(found.as_dict())
        return None
    if found.queues:
        titles = ("queue", "ready", "oldest", "waiting", "running", "workers")
        console.screen.table(titles, map(_cells, found.queues), {"queue"})
    else:
        console.screen.text("No job waits or runs.")
    console.screen.gap()
    live = sum(worker.is_live for worker in found.workers)
    silent = len(found.workers) - live
    told = f"{silent} were not seen for a minute" if silent else ""
    console.screen.text(f"Workers: {'; '.join(filter(None, (f'{live} live', told)))}.")
    console.screen.text(
        f"Failed within {span(found.window)}: {counted(found.failed, 'job')}."
    )
    if found.failures:
        rows = ((one.queue, one.task, one.count) for one in found.failures)
        console.screen.table(("queue", "task", "failed"), rows, {"queue", "task"})
    return None


def _cells(queue: QueueFigures) -> tuple[Any, ...]:
    oldest = None if queue.oldest_ready is None else span(queue.oldest_ready)
    ready = "paused" if queue.ready is None else _number(queue.ready)
    numbers = (_number(queue.waiting), _number(queue.running))
    return queue.name, ready, oldest, *numbers, queue.workers


def _number(number: int) -> str:
    return f"{MOST_COUNTED:,}+" if number > MOST_COUNTED else f"{number:,}"
