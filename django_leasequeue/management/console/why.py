"""`jobs why`: why a job is not running."""

from argparse import ArgumentParser

from django_leasequeue.management.console.common import Console, add_common
from django_leasequeue.models import Job
from django_leasequeue.why import Kind

HELP = "Tell why a job is not running, or what it does instead."


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("id", type=int, metavar="ID", help="The job's id.")
    add_common(parser)


def run(console: Console) -> str | None:
    """Print the causes, what holds it back now first."""
    pk = console.given["id"]
    causes = Job.objects.using(console.database).why(pk)
    if console.wants_json:
        console.json({"job": pk, "causes": [cause.as_dict() for cause in causes]})
    elif causes[0].kind is Kind.GONE:
        return causes[0].sentence
    else:
        for cause in causes:
            console.screen.text(cause.sentence)
    return "There is no such job." if causes[0].kind is Kind.GONE else None
