"""`jobs list`: the newest jobs that meet the filters."""

from argparse import ArgumentParser
from typing import Any

from django_leasequeue.management.console.choosing import (
    add_filters,
    chosen,
    warn_of_misspelt,
)
from django_leasequeue.management.console.common import Console, add_common, with_now
from django_leasequeue.states import FINAL, Status
from django_leasequeue.times import span

HELP = "List jobs, newest first. Nothing is counted, however many there are."

_COLUMNS = (
    "id",
    "status",
    "queue",
    "task",
    "group",
    "dedup_id",
    "priority",
    "attempts",
    "max_attempts",
    "created_at",
    "run_at",
    "last_attempted_at",
    "finished_at",
    "worker",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    add_filters(parser, limit=50)
    add_common(parser)


def run(console: Console) -> str | None:
    """Print the list."""
    limit = console.given["limit"]
    found = list(with_now(chosen(console)).values(*_COLUMNS, "now")[: limit + 1])
    rows = found[:limit]
    if console.wants_json:
        console.json([{name: row[name] for name in _COLUMNS} for row in rows])
        return None
    if not rows:
        console.screen.text("No job matches.")
        warn_of_misspelt(console)
        return None
    titles = ("id", "status", "queue", "task", "dedup id", "attempts", "when")
    console.screen.table(titles, map(_cells, rows), {"queue", "task", "dedup id"})
    if len(found) > limit:
        console.screen.text(f"There are more; the newest {limit} are listed (--limit).")
    return None


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row["id"],
        row["status"],
        row["queue"],
        row["task"],
        row["dedup_id"],
        f"{row['attempts']}/{row['max_attempts']}",
        _when(row),
    )


def _when(row: dict[str, Any]) -> str:
    """Return since or until when the row is as it is."""
    if row["status"] in FINAL:
        return f"{_ago(row, 'finished_at')} ago"
    if row["status"] == Status.RUNNING:
        return f"for {_ago(row, 'last_attempted_at')}"
    if row["run_at"] > row["now"]:
        return f"in {span((row['run_at'] - row['now']).total_seconds())}"
    return f"due for {_ago(row, 'run_at')}"


def _ago(row: dict[str, Any], name: str) -> str:
    since = row[name]
    return "-" if since is None else span((row["now"] - since).total_seconds())
