"""`jobs run-now`: delayed jobs are due at once."""

from argparse import ArgumentParser

from django_leasequeue.management.console.acting import Done, act, add_act_arguments
from django_leasequeue.management.console.common import Console
from django_leasequeue.models import Job
from django_leasequeue.states import Status

HELP = (
    "Make jobs due that wait for their time or their next attempt. A paused queue, a "
    "concurrency key and a group hold them back as ever. Filters alone choose pending jobs."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    add_act_arguments(parser)


def run(console: Console) -> str | None:
    """Make due what was chosen."""

    def do(ids: list[int]) -> Done:
        result = Job.objects.using(console.database).filter(pk__in=ids).run_now()
        return Done(
            {"made_due": result.made_due},
            {
                "unchanged": result.unchanged,
                "not_waiting": result.not_waiting,
                "locked": result.busy,
                "gone": result.gone,
            },
        )

    return act(console, "Run now", [Status.PENDING.value], do)
