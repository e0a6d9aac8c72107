"""System checks: each wrong value has an id, a sentence and a hint. See docs/checks.md."""

from django.core.checks import Tags, register

from django_leasequeue.checks.commands import check_commands
from django_leasequeue.checks.databases import check_options, check_servers
from django_leasequeue.checks.hooks import check_hooks
from django_leasequeue.checks.settings import check_immediate, check_settings
from django_leasequeue.checks.tasks import (
    check_atomic_tasks,
    check_dedup,
    check_limits,
    check_schedules,
    check_tasks,
)

# `manage.py check --tag leasequeue` runs those alone that ask no database.
TAG = "leasequeue"


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
