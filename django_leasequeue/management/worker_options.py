"""What the options of `runjobs` come to: WorkerOptions, or the reason why not."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import Error, connections, router

from django_leasequeue.conf import conf
from django_leasequeue.models import Job
from django_leasequeue.worker.known_queues import tasks_own, unknown_queues
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.options import WorkerOptions, WrongOption

# They say how children are run, or what a worker does that runs until it is stopped.
_CONTRADICTIONS = {
    (
        "in_process",
        "reload",
    ): "--reload starts child processes anew; --in-process has none.",
    ("drain", "reload"): "--reload is for a worker that goes on; --drain ends it.",
}
# What is said of a worker for many jobs, with what stands for "not given".
_OF_MANY = {
    "queues": "*",
    "exclude": "",
    "processes": None,
    "threads": None,
    "async_tasks": None,
    "drain": False,
    "max_jobs": None,
    "reload": False,
}


def worker_options(given: dict[str, Any]) -> WorkerOptions:
    """Return the options, with settings for what is not given. Raises CommandError."""
    try:
        return _worker_options(given)
    except CommandError as error:
        if given["job"] is not None:
            # As for any job that could not be run; 1 says that it ran and has not succeeded.
            error.returncode = 2
        raise


def _worker_options(given: dict[str, Any]) -> WorkerOptions:
    for names, problem in _CONTRADICTIONS.items():
        if all(given[name] for name in names):
            raise CommandError(problem)
    if given["job"] is not None:
        for name, absent in _OF_MANY.items():
            if given[name] != absent:
                option = name.replace("_", "-")
                raise CommandError(f"--{option} is not for --job, which runs one job.")
    if given["in_process"] and (given["processes"] or 1) > 1:
        raise CommandError(
            f"--processes={given['processes']} starts child processes; --in-process has "
            "none."
        )
    database = given["database"] or router.db_for_write(Job)
    if database not in connections:
        raise CommandError(
            f"There is no database {database!r}. DATABASES has {', '.join(connections)}."
        )
    if given["job"] is not None:
        ones = dict.fromkeys(("processes", "threads", "async_tasks", "max_jobs"), 1)
        given = {**given, **ones}
    try:
        return WorkerOptions(
            queues=given["queues"],
            exclude=given["exclude"],
            database=database,
            drain=given["drain"],
            max_jobs=given["max_jobs"],
            job=given["job"],
            reload=given["reload"],
            verbosity=given["verbosity"],
            **{
                name: getattr(conf, name) if given[name] is None else given[name]
                for name in ("processes", "threads", "async_tasks", "shutdown_timeout")
            },
        )
    except WrongOption as error:
        option = error.name.replace("_", "-")
        raise CommandError(f"--{option} {error.problem}") from error
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error
    except ValueError as error:
        raise CommandError(f"--queues and --exclude: {error}") from error


def warn_of_unknown_queues(options: WorkerOptions) -> None:
    """Log the queues that are named but that nothing speaks for, such as misspelt ones.

    The tasks have to be imported.
    """
    try:
        unknown = unknown_queues(options.selection.named, options.database)
    except Error:
        return  # the worker waits for its database, and says so
    if unknown:
        logger.warning(
            "Of --queues, these are no task's and hold no job: %s. Misspelt? The tasks' own "
            "queues are %s.",
            ", ".join(map(repr, unknown)),
            tasks_own(),
            extra={"queues": unknown},
        )
