"""`jobs release`: running jobs are taken from workers that hang."""

from argparse import ArgumentParser

from django_leasequeue.management.console.acting import Done, act, add_act_arguments
from django_leasequeue.management.console.common import Console
from django_leasequeue.models import Job
from django_leasequeue.states import Status

HELP = (
    "Take running jobs from workers that hang, so that others run them; those that were "
    "asked to stop have ended with that. Until its worker is told, at the next renewal of its "
    "lease, such a job may run twice at one time. Filters alone choose running jobs."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    add_act_arguments(parser)


def run(console: Console) -> str | None:
    """Release what was chosen."""

    def do(ids: list[int]) -> Done:
        result = Job.objects.using(console.database).filter(pk__in=ids).force_release()
        return Done(
            {"released": result.released, "cancelled": result.cancelled},
            {
                "not_running": result.not_running,
                "locked": result.busy,
                "gone": result.gone,
            },
        )

    return act(console, "Release", [Status.RUNNING.value], do)
