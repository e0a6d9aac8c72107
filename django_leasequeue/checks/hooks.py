"""Checks of what a project hooks into runs: callbacks of tasks, and middleware."""

import contextlib
from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured

from django_leasequeue import hooks
from django_leasequeue.checks.each_task import of_each_task
from django_leasequeue.checks.messages import new_message, told
from django_leasequeue.conf import conf
from django_leasequeue.task_options import TaskOptions


def check_hooks(**kwargs: Any) -> list[CheckMessage]:
    """Callbacks of tasks and middleware that can't be imported or called."""
    found = of_each_task(_callback_problems)
    with contextlib.suppress(ImproperlyConfigured):  # check_settings tells it
        for path in conf.middleware:
            found.extend(_middleware_problems(path))
    return found


def _callback_problems(task: TaskOptions) -> Iterator[CheckMessage]:
    for option in hooks.CALLBACKS:
        path = getattr(task, option)
        if not isinstance(path, str):
            continue  # looked at when the task was made
        what = f"{option} of the task {task.name!r}"
        try:
            hooks.check_callback(what, hooks.load(path))
        except Exception as error:
            yield new_message(
                "E203",
                f"The {what}, {path!r}, can't be called: {told(error)}",
                "Give it the dotted path of a function of one argument.",
            )


def _middleware_problems(path: str) -> Iterator[CheckMessage]:
    try:
        hooks.load(path)
    except Exception as error:
        yield new_message(
            "E204",
            f"The middleware {path!r} can't be called: {told(error)}",
            "Workers import LEASEQUEUE['MIDDLEWARE'] at their start, and would not start.",
        )
