"""Whether a process that is started from here would open the same database.

It reads the settings anew, while a test runner has pointed its aliases at test databases.
"""

from typing import Any

from django.conf import settings

_names: dict[str, str] = {}


def remember_names() -> None:
    """Keep the databases' names, before a test runner changes them. For AppConfig.ready()."""
    for alias, given in settings.DATABASES.items():
        _names[alias] = str(given.get("NAME") or "")


def is_as_configured(connection: Any) -> bool:
    """Whether others open this database by its alias: a name that settings gave, no memory."""
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        return False
    name = str(connection.settings_dict.get("NAME") or "")
    return _names.get(connection.alias, name) == name
