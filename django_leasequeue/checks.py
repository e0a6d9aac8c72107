"""System checks: each wrong value has an id, a sentence and a hint. See docs/checks.md."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from string import Formatter
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.core.management import find_commands, get_commands
from django.db import DatabaseError, connections, router

from django_leasequeue import firing, hooks, payloads, registry
from django_leasequeue.concurrency import of_queue
from django_leasequeue.conf import conf
from django_leasequeue.db.advice import SUPPORTED, from_options, from_server
from django_leasequeue.models import Job, Schedule
from django_leasequeue.monitoring import stale
from django_leasequeue.payloads.tracebacks import message_of
from django_leasequeue.worker.readiness import missing_migrations

# `manage.py check --tag leasequeue` runs those alone that ask no database.
TAG = "leasequeue"


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """What is wrong with LEASEQUEUE, its own name included."""
    wrong = [
        _message(problem.id, problem.message, problem.hint)
        for problem in conf.problems()
    ]
    if not hasattr(settings, "LEASEQUEUE"):
        names = filter(str.isupper, dir(settings))
        for name in get_close_matches("LEASEQUEUE", names, n=1, cutoff=0.8):
            message = (
                f"The settings have {name}, which nothing reads, and no LEASEQUEUE."
            )
            wrong.append(_message("W012", message, "Is it misspelt?"))
    return wrong


def check_immediate(**kwargs: Any) -> list[CheckMessage]:
    """That no site runs its jobs where it dispatches them."""
    with contextlib.suppress(
        ImproperlyConfigured
    ):  # check_settings tells what is wrong
        if conf.immediate and not settings.DEBUG:
            message = "LEASEQUEUE['IMMEDIATE'] is True, and DEBUG is not: a request waits for "
            return [
                _message(
                    "W011",
                    f"{message}each job that it dispatches.",
                    "It is for development. Leave it out, and run 'manage.py runjobs'.",
                )
            ]
    return []


def check_tasks(**kwargs: Any) -> list[CheckMessage]:
    """Modules of tasks that can't be imported, two tasks of one name included."""
    try:
        modules = [*registry.app_modules(), *conf.task_modules]
    except ImproperlyConfigured:
        modules = registry.app_modules()  # check_settings tells what is wrong
    return [message for name in modules for message in _import_problems(name)]


def check_atomic_tasks(**kwargs: Any) -> list[CheckMessage]:
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


def check_limits(**kwargs: Any) -> list[CheckMessage]:
    """Tasks whose own concurrency keys exempt them from the limits of their queues."""
    # What can't be imported or is set wrongly is told by the checks above.
    with contextlib.suppress(Exception):
        registry.autodiscover()
        return [
            message
            for name in registry.names()
            for message in _limit_problems(registry.get(name))
        ]
    return []


def check_dedup(**kwargs: Any) -> list[CheckMessage]:
    """Tasks whose dedup id is one text for all jobs, and reads like a format."""
    # What can't be imported or is set wrongly is told by the checks above.
    with contextlib.suppress(Exception):
        registry.autodiscover()
    return [
        message
        for name in registry.names()
        for message in _dedup_problems(registry.get(name))
    ]


def check_hooks(**kwargs: Any) -> list[CheckMessage]:
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


def check_schedules(**kwargs: Any) -> list[CheckMessage]:
    """Schedules of tasks that could make no job."""
    # What can't be imported or is set wrongly besides is told by the checks above.
    with contextlib.suppress(Exception):
        registry.autodiscover()
    return [
        message
        for name, (task, rule) in registry.declared().items()
        for message in _schedule_problems(
            Schedule(name=name, **rule.columns(task.name))
        )
    ]


def check_commands(**kwargs: Any) -> list[CheckMessage]:
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


def check_options(databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """What DATABASES should say of the database in which jobs are stored."""
    home = router.db_for_write(Job)
    if databases is not None and home not in databases:
        return []
    return [
        _message(*advice)
        for alias in _with_jobs([home])
        for advice in from_options(connections[alias])
    ]


def check_servers(databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
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
        check_immediate,
        check_tasks,
        check_atomic_tasks,
        check_limits,
        check_dedup,
        check_hooks,
        check_schedules,
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


def _limit_problems(task: registry.TaskOptions) -> Iterator[CheckMessage]:
    limit = conf.concurrency(task.queue)
    if task.limits is None or limit is None:
        return
    shared = of_queue(task.queue, limit).key
    if task.limits.key != shared:
        yield _message(
            "W206",
            f"The task {task.name!r} has the concurrency key {task.limits.key!r}, so the "
            f"limit of its queue {task.queue!r}, CONCURRENCY {limit}, does not count its "
            "jobs.",
            f"A job has one key. Drop the task's, or share the queue's: {shared!r}.",
        )


def _dedup_problems(task: registry.TaskOptions) -> Iterator[CheckMessage]:
    wanted = None if callable(task.dedup) else registry.as_dedup(task.dedup)
    if wanted is None:
        return
    try:
        named = [name for _, name, _, _ in Formatter().parse(wanted.id) if name]
    except ValueError:
        return  # braces, but no format
    arguments = [name for name in named if name in task.signature.parameters]
    if arguments:
        yield _message(
            "W207",
            f"The dedup id {wanted.id!r} of {task.name!r} is taken literally: "
            f"{', '.join(arguments)} in braces is not filled in, so all its jobs have one id.",
            "Make it a function of the task's arguments, such as dedup=lambda "
            f'{arguments[0]}: f"...:{{{arguments[0]}}}", or give each dispatch its own: '
            'using(dedup=f"...").dispatch(...).',
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


def _schedule_problems(schedule: Schedule) -> Iterator[CheckMessage]:
    try:
        firing.check(schedule)
    except Exception as error:
        yield _message(
            "E205",
            f"The schedule {schedule.name!r} of the task {schedule.task!r} can't make a "
            f"job: {_told(error)}",
            "Change what cron(...) or every(...) is given.",
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
    yield from _broken_schedules(alias)
    yield from _stale_jobs(alias)
    absent = sorted(set(tables) - set(connections[alias].introspection.table_names()))
    if absent:
        yield _message(
            "W112",
            f"Database {alias!r} has no table {' and no '.join(absent)}, though it is marked "
            "as migrated.",
            "Restore it, or run 'manage.py migrate leasequeue zero --fake' and then "
            "'manage.py migrate'.",
        )


def _broken_schedules(alias: str) -> Iterator[CheckMessage]:
    with contextlib.suppress(DatabaseError):  # no table, which is told by the next
        broken = Schedule.objects.using(alias).filter(enabled=True).exclude(problem="")
        for schedule in broken.order_by("name")[:20]:
            yield _message(
                "W114",
                f"The schedule {schedule.name!r} in {alias!r} makes no jobs: "
                f"{schedule.problem}",
                "Mend it in the code, or in the admin if it was made there.",
            )


def _stale_jobs(alias: str) -> Iterator[CheckMessage]:
    try:
        registry.autodiscover()
    except Exception:
        return  # which E201 tells, and what could not be imported is no more known
    with contextlib.suppress(DatabaseError):  # no table, which is told by the next
        for unknown in stale.unknown_tasks(alias):
            yield _message(
                "W115",
                f"Of pending jobs in {alias!r}, {unknown.number} are of the task "
                f"{unknown.task!r}, which this code does not have; job {unknown.first} is "
                "one. Workers put them off a few times, then fail them.",
                "Give the task's old name to its new one, @task(aliases=[...]), or cancel "
                f"them: 'manage.py jobs cancel --task {unknown.task}'.",
            )
        for misfit in stale.misfits(alias):
            yield _message(
                "W116",
                f"Of pending jobs in {alias!r}, {misfit.number} of the task {misfit.task!r} "
                f"have arguments that its function no longer takes; job {misfit.first} is "
                f"one: {misfit.why}",
                "They fail as they are run. Give new parameters a default, or cancel the "
                "jobs and dispatch others.",
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
