"""Which names of queues something speaks for, so that a misspelt one can be told."""

from collections.abc import Iterable

from django_leasequeue import registry
from django_leasequeue.conf import lookup
from django_leasequeue.models import Job


def unknown_queues(names: Iterable[str], using: str) -> list[str]:
    """Return those that no task, no setting and no job names.

    The tasks have to be imported. Raises the database's errors.
    """
    known = set(_of_tasks()) | lookup.given_queues().keys()
    jobs = Job.objects.using(using)
    return [
        name
        for name in names
        if name not in known and not jobs.filter(queue=name).exists()
    ]


def misspelt(name: str) -> str:
    """Return what to say of a queue that is unknown, for people."""
    return (
        f"No task, no setting and no job names the queue {name!r}. Misspelt? The tasks' own "
        f"queues are {tasks_own()}."
    )


def tasks_own() -> str:
    """Return the queues that tasks name, in one line for people."""
    return ", ".join(map(repr, _of_tasks()))


def _of_tasks() -> list[str]:
    return sorted({registry.get(name).queue for name in registry.names()})
