"""`jobs cancel`: pending jobs at once, running ones as soon as they look."""

from argparse import ArgumentParser

from django_leasequeue.management.console.acting import Done, act, add_act_arguments
from django_leasequeue.management.console.common import Console
from django_leasequeue.models import Job
from django_leasequeue.states import Status

HELP = (
    "Cancel jobs: pending ones at once; running ones are asked, and end when they look. "
    "Filters alone choose pending and running jobs."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    add_act_arguments(parser)


def run(console: Console) -> str | None:
    """Cancel what was chosen."""

    def do(ids: list[int]) -> Done:
        result = Job.objects.using(console.database).filter(pk__in=ids).cancel()
        return Done(
            {"cancelled": result.cancelled, "requested": result.requested},
            {"ended": result.unchanged, "locked": result.busy, "gone": result.gone},
        )

    return act(console, "Cancel", [Status.PENDING.value, Status.RUNNING.value], do)
