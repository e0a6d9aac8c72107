"""`jobs workers`: which worker processes there are, and how much each runs."""

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django_leasequeue.management.console.common import Console, add_common
from django_leasequeue.monitoring import WorkerFigures, workers
from django_leasequeue.states import Status
from django_leasequeue.times import span

HELP = "List worker processes: what they take, how many jobs they run, when they were seen."
# Running jobs that are looked at to count each worker's.
MOST = 10_000


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    add_common(parser)


def run(console: Console) -> str | None:
    """Print the list."""
    found = workers(console.database)
    running = console.jobs.filter(status=Status.RUNNING).values_list(
        "worker", flat=True
    )
    runs = Counter(running[:MOST])
    if console.wants_json:
        console.json([{**one.as_dict(), "running": runs[one.name]} for one in found])
        return None
    if not found:
        console.screen.text("There is no worker.")
        return None
    titles = (
        "worker",
        "state",
        "seen",
        "running",
        "queues",
        "excluded",
        "version",
        "up",
    )
    rows = (_cells(one, runs[one.name]) for one in found)
    console.screen.table(titles, rows, {"worker", "queues", "excluded"})
    return None


def _cells(worker: WorkerFigures, running: int) -> tuple[Any, ...]:
    versions = worker.versions if isinstance(worker.versions, dict) else {}
    up = (worker.last_seen_at - worker.started_at).total_seconds()
    return (
        worker.name,
        "live" if worker.is_live else "silent",
        f"{span(worker.unseen)} ago",
        running,
        _names(worker.queues),
        _names(worker.exclude) or None,
        versions.get("django_leasequeue") or None,
        span(up),
    )


def _names(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
