"""Checks of the management commands."""

from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage
from django.core.management import find_commands, get_commands

from django_leasequeue.checks.messages import new_message
from django_leasequeue.models import Job


def check_commands(**kwargs: Any) -> list[CheckMessage]:
    """Commands of this app in whose place another app's are run."""
    app = apps.get_app_config(Job._meta.app_label)
    owners = get_commands()
    return [
        new_message(
            "W301",
            f"'manage.py {name}' runs the command of {owners[name]}, not that of {app.name}.",
            f"Put {app.name!r} above {owners[name]!r} in INSTALLED_APPS.",
        )
        for name in find_commands(f"{app.path}/management")
        if owners.get(name, app.name) != app.name
    ]
