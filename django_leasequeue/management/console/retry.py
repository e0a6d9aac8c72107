"""`jobs retry`: jobs that have ended run again."""

from argparse import ArgumentParser

from django_leasequeue.management.console.acting import Done, act, add_act_arguments
from django_leasequeue.management.console.common import Console
from django_leasequeue.models import Job
from django_leasequeue.states import Status

HELP = (
    "Run jobs again that have ended, each in a new round, due now. Filters alone choose "
    "failed jobs; for others add --status."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    add_act_arguments(parser)


def run(console: Console) -> str | None:
    """Retry what was chosen."""

    def do(ids: list[int]) -> Done:
        result = Job.objects.using(console.database).filter(pk__in=ids).retry()
        return Done(
            {"retried": result.retried},
            {
                "conflicts": set(result.conflicts),
                "unfinished": result.unfinished,
                "locked": result.busy,
                "gone": result.gone,
            },
        )

    return act(console, "Run again", [Status.FAILED.value], do)
