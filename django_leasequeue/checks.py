"""System checks: each wrong value has an id, a sentence and a hint. See docs/checks.md."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.core.management import find_commands, get_commands
from django.db import connections, router

from django_leasequeue import hooks, payloads, registry
from django_leasequeue.conf import conf
from django_leasequeue.db.advice import SUPPORTED, from_options, from_server
from django_leasequeue.models import Job
from django_leasequeue.payloads.tracebacks import message_of
from django_leasequeue.worker.readiness import missing_migrations

# `manage.py check --tag leasequeue` runs those alone that ask no database.
TAG = "leasequeue"


def check_settings(**kwargs) -> list[CheckMessage]:
    """What is wrong with LEASEQUEUE."""
    return [
        _message(problem.id, problem.message, problem.hint)
        for problem in conf.problems()
    ]


def check_tasks(**kwargs) -> list[CheckMessage]:
    """Modules of tasks that can't be imported, two tasks of one name included."""
    try:
        modules = [*registry.app_modules(), *conf.task_modules]
    except ImproperlyConfigured:
        modules = registry.app_modules()  # check_settings tells what is wrong
    return [message for name in modules for message in _import_problems(name)]


def check_atomic_tasks(**kwargs) -> list[CheckMessage]:
    """Atomic tasks that may keep SQLite's one write lock for longer than a lease lasts."""
    home = connections[router.db_for_write(Job)]
    if home.vendor != "sqlite":
        return []
    # What can't be imported or is set wrongly is told by the checks above.
    with contextlib.suppress(Exception):
        registry.autodiscover()
        return [
            message
            for name in registry.names()
            for message in _atomic_problems(registry.get(name))
        ]
    return []


def check_hooks(**kwargs) -> list[CheckMessage]:
    """Callbacks of tasks and middleware that can't be imported or called."""
    # What can't be imported or is set wrongly besides is told by the checks above.
    with contextlib.suppress(Exception):
        registry.autodiscover()
    tasks = [registry.get(name) for name in registry.names()]
    callbacks = [message for task in tasks for message in _callback_problems(task)]
    with contextlib.suppress(ImproperlyConfigured):
        return callbacks + [
            message for path in conf.middleware for message in _path_problems(path)
        ]
    return callbacks


def check_commands(**kwargs) -> list[CheckMessage]:
    """Commands of this app in whose place another app's are run."""
    app = apps.get_app_config(Job._meta.app_label)
    owners = get_commands()
    return [
        _message(
            "W301",
            f"'manage.py {name}' runs the command of {owners[name]}, not that of {app.name}.",
            f"Put {app.name!r} above {owners[name]!r} in INSTALLED_APPS.",
        )
        for name in find_commands(f"{app.path}/management")
        if owners.get(name, app.name) != app.name
    ]


def check_options(databases=None, **kwargs) -> list[CheckMessage]:
    """What DATABASES should say of the database in which jobs are stored."""
    home = router.db_for_write(Job)
    if databases is not None and home not in databases:
        return []
    return [
        _message(*advice)
        for alias in _with_jobs([home])
        for advice in from_options(connections[alias])
    ]


def check_servers(databases=None, **kwargs) -> list[CheckMessage]:
    """What the databases themselves should be; asks them, so only those at hand."""
    return [
        message
        for alias in _with_jobs(databases or [])
        for message in _server_problems(alias)
    ]


def register_all() -> None:
    """Make Django run all of these."""
    for check in (
        check_settings,
        check_tasks,
        check_atomic_tasks,
        check_hooks,
        check_commands,
        check_options,
    ):
        register(check, TAG)
    # Not under the tag of the others: with a tag and no alias, Django hands over them all.
    register(check_servers, Tags.database)


def _import_problems(module: str) -> Iterator[CheckMessage]:
    try:
        registry.import_tasks(module)
    except Exception as error:
        yield _message(
            "E201",
            f"Importing {module!r} raised {_told(error)}",
            f"Workers import it at their start, and would not start. See the traceback with "
            f"'manage.py shell --command \"import {module}\"'.",
        )


def _atomic_problems(task: registry.TaskOptions) -> Iterator[CheckMessage]:
    most = conf.lease(task.queue) - conf.safety_buffer(task.queue)
    if not task.atomic or (task.timeout is not None and task.timeout < most):
        return
    has = "no timeout" if task.timeout is None else f"a timeout of {task.timeout:g} s"
    yield _message(
        "E202",
        f"The atomic task {task.name!r} has {has}. On SQLite no lease can be renewed while "
        "it runs, since it has the only write lock.",
        f"Give it a timeout below {most:g} seconds, which is LEASE - SAFETY_BUFFER of its "
        "queue, or a queue with a longer LEASE.",
    )


def _callback_problems(task: registry.TaskOptions) -> Iterator[CheckMessage]:
    for option in registry.CALLBACKS:
        path = getattr(task, option)
        if not isinstance(path, str):
            continue  # looked at when the task was made
        what = f"{option} of the task {task.name!r}"
        try:
            hooks.check_callback(what, hooks.load(path))
        except Exception as error:
            yield _message(
                "E203",
                f"The {what}, {path!r}, can't be called: {_told(error)}",
                "Give it the dotted path of a function of one argument.",
            )


def _path_problems(path: str) -> Iterator[CheckMessage]:
    try:
        hooks.load(path)
    except Exception as error:
        yield _message(
            "E204",
            f"The middleware {path!r} can't be called: {_told(error)}",
            "Workers import LEASEQUEUE['MIDDLEWARE'] at their start, and would not start.",
        )


def _told(error: Exception) -> str:
    text = payloads.clean_text(message_of(error), 1_000)
    return f"{type(error).__name__}: {text}"


def _server_problems(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    if connection.vendor not in SUPPORTED:
        return  # told if jobs are stored there, see check_options
    if alias != router.db_for_write(Job):
        for advice in from_options(connection):
            yield _message(*advice)
    models = apps.get_app_config(Job._meta.app_label).get_models()
    tables = [model._meta.db_table for model in models]
    for advice in from_server(connection, tables):
        yield _message(*advice)
    # Django checks before it migrates, and nobody needs to be told to do what is being done.
    if sys.argv[1:2] != ["migrate"]:
        yield from _schema_problems(alias, tables)


def _schema_problems(alias: str, tables: list[str]) -> Iterator[CheckMessage]:
    behind = missing_migrations(alias)
    if behind:
        yield _message(
            "W111",
            f"Database {alias!r} lacks {', '.join(behind)} of this app's migrations, so "
            "workers don't start and a dispatch may fail.",
            f"Run 'manage.py migrate --database {alias}'.",
        )
        return
    absent = sorted(set(tables) - set(connections[alias].introspection.table_names()))
    if absent:
        yield _message(
            "W112",
            f"Database {alias!r} has no table {' and no '.join(absent)}, though it is marked "
            "as migrated.",
            "Restore it, or run 'manage.py migrate leasequeue zero --fake' and then "
            "'manage.py migrate'.",
        )


def _with_jobs(aliases: Iterable[str]) -> list[str]:
    """Return those that are databases at all and may have the job table."""
    return [
        alias
        for alias in aliases
        if connections[alias].vendor != "unknown"
        and router.allow_migrate_model(alias, Job)
    ]


def _message(id: str, message: str, hint: str | None) -> CheckMessage:
    kind: Callable[..., CheckMessage] = Error if id.startswith("E") else Warning
    return kind(message, hint=hint, id=f"leasequeue.{id}")
