"""What the checks of tasks have in common: they look at one after the other."""

import contextlib
from collections.abc import Callable, Iterator

from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured

from django_leasequeue import discovery, registry
from django_leasequeue.conf import conf
from django_leasequeue.task_options import TaskOptions


def modules() -> list[str]:
    """Return the modules in which tasks may be; those that settings name if they can be read."""
    try:
        return [*discovery.app_modules(), *conf.task_modules]
    except ImproperlyConfigured:
        return discovery.app_modules()  # check_settings tells what is wrong


def of_each_task(
    problems: Callable[[TaskOptions], Iterator[CheckMessage]],
) -> list[CheckMessage]:
    """Return what is wrong with each task, in the order of their names.

    A module that can't be imported and a setting that can't be read hide the tasks which
    need them, no others; in a package of tasks also those of the modules that come later.
    """
    for module in modules():
        with contextlib.suppress(Exception):  # check_tasks tells it
            discovery.import_tasks(module)
    found: list[CheckMessage] = []
    for name in registry.names():
        with contextlib.suppress(ImproperlyConfigured):  # check_settings tells it
            found.extend(problems(registry.get(name)))
    return found
