"""System checks of one backend in TASKS. See docs/checks.md."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.db import connections, router

from django_leasequeue.backend.task import FOR_ALL
from django_leasequeue.dedup import check_queue
from django_leasequeue.task_options import TaskOptions

if TYPE_CHECKING:
    from django_leasequeue.backend.lease_queue import LeaseQueueBackend

KNOWN = FOR_ALL | {"database"}


def of_backend(backend: "LeaseQueueBackend") -> Iterator[CheckMessage]:
    """Yield what is wrong with a backend's entry in TASKS."""
    where = f"TASKS[{backend.alias!r}]"
    if not apps.is_installed("django_leasequeue"):
        yield _error(
            "E401",
            f"{where} stores jobs in the tables of 'django_leasequeue', which is not installed.",
            "Add 'django_leasequeue' to INSTALLED_APPS, and migrate.",
        )
        return
    yield from _of_options(backend, f"{where}['OPTIONS']")
    yield from _of_queues(backend.params.get("QUEUES", []), f"{where}['QUEUES']")
    yield from _of_database(backend, where)


def _of_options(backend: "LeaseQueueBackend", where: str) -> Iterator[CheckMessage]:
    if type(backend.options) is not dict:
        yield _error("E402", f"{where} is no dict.", "Make it one.")
        return
    for name in sorted(map(str, backend.options.keys() - KNOWN)):
        close = get_close_matches(name, KNOWN, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else None
        yield _error(
            "E402",
            f"{where} has the unknown key {name!r}.",
            hint or f"There are {', '.join(sorted(KNOWN))}.",
        )
    for name, value in backend.defaults.items():
        try:
            TaskOptions(name=where, func=_nothing, **{name: value})
        except (TypeError, ValueError) as error:
            yield _error("E403", f"{where}[{name!r}] can't be: {error}", None)


def _of_queues(queues: Any, where: str) -> Iterator[CheckMessage]:
    if isinstance(queues, str):
        yield _error(
            "E404",
            f"{where} is text, of which each letter is a queue.",
            f"[{queues!r}]",
        )
        return
    for name in queues:
        try:
            check_queue(name)
        except (TypeError, ValueError) as error:
            yield _error(
                "E404",
                f"{where} has {name!r}, which no queue can be called. {error}",
                "An empty list allows every queue.",
            )


def _of_database(backend: "LeaseQueueBackend", where: str) -> Iterator[CheckMessage]:
    from django_leasequeue.models import Job

    alias = backend.database
    if alias is None:
        return
    if alias not in connections.settings:
        close = get_close_matches(str(alias), connections.settings, n=1)
        yield _error(
            "E405",
            f"{where}['OPTIONS']['database'] is {alias!r}, which DATABASES does not have.",
            f"Did you mean {close[0]!r}?" if close else "Name one that it has.",
        )
    elif not router.allow_migrate_model(alias, Job):
        yield _error(
            "E405",
            f"{where}['OPTIONS']['database'] is {alias!r}, in which DATABASE_ROUTERS allow no "
            "table of jobs.",
            "Name the database that has it, or let the router allow it.",
        )


def _nothing() -> None:
    """Stands for any function."""


def _error(id: str, message: str, hint: str | None) -> CheckMessage:
    return Error(message, hint=hint, id=f"leasequeue.{id}")
