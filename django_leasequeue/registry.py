"""The tasks this process knows, by name, and what that says of jobs that have the name."""

import contextlib
import inspect
from difflib import get_close_matches
from typing import Any

from django_leasequeue import discovery
from django_leasequeue.conf import conf
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.recurrence import Recurrence
from django_leasequeue.redaction import CLOSED, Redaction
from django_leasequeue.retention import Rules
from django_leasequeue.task_options import TaskOptions

_tasks: dict[str, TaskOptions] = {}


def register(options: TaskOptions) -> None:
    """Make a task known under its name and aliases.

    Raises ValueError if another function has one of them. The same function registered
    again, as after a module reload, takes the place of its former self.
    """
    for name in (options.name, *options.aliases):
        known = _tasks.get(name)
        if known is not None and _identity(known) != _identity(options):
            raise ValueError(
                f"Two tasks want the name {name!r}: {_identity(known)} and "
                f"{_identity(options)}. Give one of them another name=."
            )
    for schedule in options.schedule:
        rival = _declaring(schedule.name)
        if rival is not None and _identity(rival) != _identity(options):
            raise ValueError(
                f"Two tasks want a schedule of the name {schedule.name!r}: "
                f"{_identity(rival)} and {_identity(options)}. Give one another name=."
            )
    for name in (options.name, *options.aliases):
        _tasks[name] = options


def _identity(options: TaskOptions) -> str:
    return f"{options.func.__module__}.{options.func.__qualname__}"


def _declaring(schedule: str) -> TaskOptions | None:
    for options in _tasks.values():
        if any(one.name == schedule for one in options.schedule):
            return options
    return None


def declared() -> dict[str, tuple[TaskOptions, Recurrence]]:
    """Return the schedules that tasks declare, by name, each with its task."""
    return {
        one.name: (options, one)
        for options in map(get, names())
        for one in options.schedule
    }


def get(name: str) -> TaskOptions:
    """Return the task of this name or alias; raises UnknownTask."""
    try:
        return _tasks[name]
    except KeyError:
        raise UnknownTask(name) from None


def names() -> list[str]:
    """Return the names of all registered tasks, without aliases, in order."""
    return sorted({options.name for options in _tasks.values()})


def all_names() -> list[str]:
    """Return the names of all registered tasks, and their aliases."""
    return sorted(_tasks)


def retention(name: str, queue: str) -> Rules:
    """Return how long finished jobs of a task are kept in a queue, by status.

    A name that nobody registered any more has the queue's rules.
    """
    task = _tasks.get(name)
    return conf.retention(queue) | (task.retention if task else {})


def redaction(name: str) -> Redaction | None:
    """Return what people may see of the jobs of a task; None if all.

    A name that nobody registered any more has no rule. If the project's tasks can't be
    imported, so that nobody knows, nothing may be seen.
    """
    task = _known_anywhere(name)
    return task.redaction if isinstance(task, TaskOptions) else task


def redaction_of_known(name: str) -> Redaction | None:
    """Return the same for a worker, which has imported all tasks there are."""
    task = _tasks.get(name)
    return task.redaction if task else None


def signature(name: str) -> inspect.Signature | None:
    """Return the parameters of a task, None if it can't be found."""
    task = _known_anywhere(name)
    return task.signature if isinstance(task, TaskOptions) else None


def redacting() -> list[str]:
    """Return the names and aliases of all tasks that hide something, in order."""
    with contextlib.suppress(Exception):
        discovery.autodiscover()
    return sorted(name for name, task in _tasks.items() if task.redact is not None)


def _known_anywhere(name: str) -> TaskOptions | Redaction | None:
    if name not in _tasks:
        # A web process imports only the tasks that it calls by themselves.
        try:
            discovery.autodiscover()
        except Exception:
            return _tasks.get(name, CLOSED)
    return _tasks.get(name)


def resolve(task: Any) -> TaskOptions:
    """Return the options of a task, or of the registered name of one.

    Raises UnknownTask for a name nobody registered, TypeError for anything that is neither.
    """
    options = _named(task) if isinstance(task, str) else getattr(task, "options", None)
    if not isinstance(options, TaskOptions):
        raise TypeError(
            f"{task!r} is no task. Decorate the function with @task and pass it, or pass its "
            "registered name."
        )
    return options


def _named(name: str) -> TaskOptions:
    try:
        return get(name)
    except UnknownTask:
        # A web process imports only the tasks that it calls by themselves.
        discovery.autodiscover()
    try:
        return get(name)
    except UnknownTask:
        raise UnknownTask(name, _closest(name)) from None


def _closest(name: str) -> str | None:
    """Return the task whose name is most like this one, if any is."""
    # Modules alike say nothing, so the functions' own names decide.
    lasts: dict[str, list[str]] = {}
    for known in names():
        lasts.setdefault(known.rpartition(".")[2], []).append(known)
    for last in get_close_matches(name.rpartition(".")[2], lasts, n=1):
        return get_close_matches(name, lasts[last], n=1, cutoff=0)[0]
    return None
