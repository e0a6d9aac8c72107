"""`jobs delete`: the rows of jobs go that wait or have ended."""

from argparse import ArgumentParser

from django_leasequeue.management.console.acting import Done, act, add_act_arguments
from django_leasequeue.management.console.common import Console
from django_leasequeue.models import Job
from django_leasequeue.states import FINAL

HELP = (
    "Delete jobs that wait or have ended, but none that runs or whose dedup window lasts. "
    "Filters alone choose jobs that have ended; for pending ones add --status."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    add_act_arguments(parser)


def run(console: Console) -> str | None:
    """Delete what was chosen."""

    def do(ids: list[int]) -> Done:
        result = Job.objects.using(console.database).filter(pk__in=ids).remove()
        return Done(
            {"removed": result.removed},
            {
                "running": result.running,
                "in_window": result.in_window,
                "kept": result.busy,
                "gone": result.gone,
            },
        )

    return act(console, "Delete", sorted(FINAL), do)
