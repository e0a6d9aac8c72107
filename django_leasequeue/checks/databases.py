"""Checks of the databases: by their settings, and by asking them."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage
from django.db import connections, router

from django_leasequeue.checks.messages import new_message
from django_leasequeue.checks.tables import schema_problems
from django_leasequeue.db.advice import SUPPORTED, from_options, from_server
from django_leasequeue.models import Job


def check_options(databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """What DATABASES should say of the database in which jobs are stored."""
    home = router.db_for_write(Job)
    if databases is not None and home not in databases:
        return []
    return [
        new_message(*advice)
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


def _server_problems(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    if connection.vendor not in SUPPORTED:
        return  # told if jobs are stored there, see check_options
    if alias != router.db_for_write(Job):
        for advice in from_options(connection):
            yield new_message(*advice)
    models = apps.get_app_config(Job._meta.app_label).get_models()
    tables = [model._meta.db_table for model in models]
    for advice in from_server(connection, tables):
        yield new_message(*advice)
    # Django checks before it migrates, and nobody needs to be told to do what is being done.
    if sys.argv[1:2] != ["migrate"]:
        yield from schema_problems(alias, tables)


def _with_jobs(aliases: Iterable[str]) -> list[str]:
    """Return those that are databases at all and may have the job table."""
    return [
        alias
        for alias in aliases
        if connections[alias].vendor != "unknown"
        and router.allow_migrate_model(alias, Job)
    ]
