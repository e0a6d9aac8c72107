"""Checks of tasks: of their modules, and of options that don't do what they seem to."""

from collections.abc import Iterator
from string import Formatter
from typing import Any

from django.core.checks import CheckMessage
from django.db import connections, router

from django_leasequeue import discovery, firing
from django_leasequeue.checks.each_task import modules, of_each_task
from django_leasequeue.checks.messages import new_message, told
from django_leasequeue.concurrency import of_queue
from django_leasequeue.conf import conf
from django_leasequeue.dedup import as_dedup
from django_leasequeue.models import Job, Schedule
from django_leasequeue.task_options import TaskOptions


def check_tasks(**kwargs: Any) -> list[CheckMessage]:
    """Modules of tasks that can't be imported, two tasks of one name included."""
    return [message for name in modules() for message in _import_problems(name)]


def check_atomic_tasks(**kwargs: Any) -> list[CheckMessage]:
    """Atomic tasks that may keep SQLite's one write lock for longer than a lease lasts."""
    if connections[router.db_for_write(Job)].vendor != "sqlite":
        return []
    return of_each_task(_atomic_problems)


def check_limits(**kwargs: Any) -> list[CheckMessage]:
    """Tasks whose own concurrency keys exempt them from the limits of their queues."""
    return of_each_task(_limit_problems)


def check_dedup(**kwargs: Any) -> list[CheckMessage]:
    """Tasks whose dedup id is one text for all jobs, and reads like a format."""
    return of_each_task(_dedup_problems)


def check_schedules(**kwargs: Any) -> list[CheckMessage]:
    """Schedules of tasks that could make no job."""
    return of_each_task(_schedule_problems)


def _import_problems(module: str) -> Iterator[CheckMessage]:
    try:
        discovery.import_tasks(module)
    except Exception as error:
        yield new_message(
            "E201",
            f"Importing {module!r} raised {told(error)}",
            f"Workers import it at their start, and would not start. See the traceback with "
            f"'manage.py shell --command \"import {module}\"'.",
        )


def _atomic_problems(task: TaskOptions) -> Iterator[CheckMessage]:
    most = conf.lease(task.queue) - conf.safety_buffer(task.queue)
    if not task.atomic or (task.timeout is not None and task.timeout < most):
        return
    has = "no timeout" if task.timeout is None else f"a timeout of {task.timeout:g} s"
    yield new_message(
        "E202",
        f"The atomic task {task.name!r} has {has}. On SQLite no lease can be renewed while "
        "it runs, since it has the only write lock.",
        f"Give it a timeout below {most:g} seconds, which is LEASE - SAFETY_BUFFER of its "
        "queue, or a queue with a longer LEASE.",
    )


def _limit_problems(task: TaskOptions) -> Iterator[CheckMessage]:
    limit = conf.concurrency(task.queue)
    if task.limits is None or limit is None:
        return
    shared = of_queue(task.queue, limit).key
    if task.limits.key != shared:
        yield new_message(
            "W206",
            f"The task {task.name!r} has the concurrency key {task.limits.key!r}, so the "
            f"limit of its queue {task.queue!r}, CONCURRENCY {limit}, does not count its "
            "jobs.",
            f"A job has one key. Drop the task's, or share the queue's: {shared!r}.",
        )


def _dedup_problems(task: TaskOptions) -> Iterator[CheckMessage]:
    wanted = None if callable(task.dedup) else as_dedup(task.dedup)
    if wanted is None:
        return
    try:
        named = [name for _, name, _, _ in Formatter().parse(wanted.id) if name]
    except ValueError:
        return  # braces, but no format
    arguments = [name for name in named if name in task.signature.parameters]
    if arguments:
        yield new_message(
            "W207",
            f"The dedup id {wanted.id!r} of {task.name!r} is taken literally: "
            f"{', '.join(arguments)} in braces is not filled in, so all its jobs have one id.",
            "Make it a function of the task's arguments, such as dedup=lambda "
            f'{arguments[0]}: f"...:{{{arguments[0]}}}", or give each dispatch its own: '
            'using(dedup=f"...").dispatch(...).',
        )


def _schedule_problems(task: TaskOptions) -> Iterator[CheckMessage]:
    for rule in task.schedule:
        schedule = Schedule(name=rule.name, **rule.columns(task.name))
        try:
            firing.check(schedule)
        except Exception as error:
            yield new_message(
                "E205",
                f"The schedule {schedule.name!r} of the task {schedule.task!r} can't make a "
                f"job: {told(error)}",
                "Change what cron(...) or every(...) is given.",
            )
