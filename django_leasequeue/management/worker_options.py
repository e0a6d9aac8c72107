"""What the options of `runjobs` come to: WorkerOptions, or the reason why not."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import Error, connections, router

from django_leasequeue.conf import conf
from django_leasequeue.models import Job
from django_leasequeue.worker import process_state
from django_leasequeue.worker.known_queues import tasks_own, unknown_queues
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.options import WorkerOptions, WrongOption

# They say how children are run, or what a worker does that runs until it is stopped.
_CONTRADICTIONS = {
    (
        "in_process",
        "reload",
    ): "--reload starts child processes anew; --in-process has none.",
    **{
        ("in_process", name): f"--{name.replace('_', '-')} replaces child processes; "
        "--in-process has none."
        for name in ("max_jobs", "max_memory")
    },
    **{
        (
            "stop_after",
            name,
        ): f"--{name.replace('_', '-')} is for a worker that goes on; "
        "--stop-after ends it."
        for name in ("max_jobs", "max_memory")
    },
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
    "stop_after": None,
    "max_jobs": None,
    "max_memory": None,
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
    if given["max_memory"] is not None and not process_state.tells_memory():
        raise CommandError(
            "--max-memory can't be watched here: this system has no /proc. --max-jobs can."
        )
    database = given["database"] or router.db_for_write(Job)
    if database not in connections:
        raise CommandError(
            f"There is no database {database!r}. DATABASES has {', '.join(connections)}."
        )
    if given["job"] is not None:
        ones = dict.fromkeys(("processes", "threads", "async_tasks", "stop_after"), 1)
        given = {**given, **ones}
    try:
        return WorkerOptions(
            queues=given["queues"],
            exclude=given["exclude"],
            database=database,
            drain=given["drain"],
            stop_after=given["stop_after"],
            max_jobs=given["max_jobs"],
            max_memory=given["max_memory"],
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

    The tasks have to be imported. Raises CommandError if a drain would take no other: it would
    find nothing, and end as if all were done.
    """
    try:
        unknown = unknown_queues(options.selection.named, options.database)
    except Error:
        return  # the worker waits for its database, and says so
    if not unknown:
        return
    names = ", ".join(map(repr, unknown))
    selection = options.selection
    if (
        options.drain
        and not selection.takes_all
        and len(unknown) == len(selection.named)
    ):
        raise CommandError(
            f"--queues names no queue of a task and none with jobs: {names}. Misspelt? The "
            f"tasks' own queues are {tasks_own()}. Others are known once they stand in the "
            "setting QUEUES."
        )
    logger.warning(
        "Of --queues, these are no task's and hold no job: %s. Misspelt? The tasks' own "
        "queues are %s.",
        names,
        tasks_own(),
        extra={"queues": unknown},
    )
