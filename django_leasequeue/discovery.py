"""Where the tasks of a project are, and how they come to be registered: modules are imported."""

import importlib
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from django_leasequeue.conf import conf
from django_leasequeue.exceptions import UndiscoverableTask
from django_leasequeue.task_options import TaskOptions

# Each is called with every module of tasks, once it is imported, and may register more.
adopters: list[Callable[[ModuleType], None]] = []


def autodiscover() -> None:
    """Import every module in which tasks may be: see `task_modules`.

    An error inside such a module is raised as it is; only a `tasks` module that an app does
    not have is passed over.
    """
    for name in app_modules():
        import_tasks(name)
    for name in conf.task_modules:
        import_tasks(name)


def app_modules() -> list[str]:
    """Return the `tasks` modules and packages that installed apps really have."""
    return [
        f"{app.name}.tasks"
        for app in apps.get_app_configs()
        if module_has_submodule(app.module, "tasks")
    ]


def import_tasks(name: str) -> None:
    """Import a module, and if it is a package every module in it."""
    modules = [importlib.import_module(name)]
    path = getattr(modules[0], "__path__", ())
    for found in pkgutil.walk_packages(path, f"{name}."):
        modules.append(importlib.import_module(found.name))
    for adopt in adopters:
        for module in modules:
            adopt(module)


def check_discoverable(options: TaskOptions) -> None:
    """Raise UndiscoverableTask if workers don't import the module the task lives in."""
    module = module_of(options)
    if not is_discoverable(module):
        raise UndiscoverableTask(options.name, module)


def module_of(options: TaskOptions) -> str:
    """Return the module that has to be imported for the task to be registered."""
    return options.module or options.func.__module__


def is_discoverable(module: str) -> bool:
    """Whether workers of this project look for tasks in a module of that name."""
    return f"{module}.".startswith(_prefixes())


_found: tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]] | None = None


def _prefixes() -> tuple[str, ...]:
    """Return task_modules(), each with a dot, made anew if apps or settings have changed."""
    global _found
    # Django puts another dict in its place when other apps are installed, as in a test.
    installed, listed, found = apps.app_configs, conf.task_modules, _found
    if found is None or found[0] is not installed or found[1] != listed:
        prefixes = tuple(f"{module}." for module in task_modules())
        found = _found = (installed, listed, prefixes)
    return found[2]


def task_modules() -> list[str]:
    """Return the modules and packages in which workers look for tasks."""
    return [
        *(f"{app.name}.tasks" for app in apps.get_app_configs()),
        *conf.task_modules,
    ]
