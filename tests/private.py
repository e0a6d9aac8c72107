"""A server of a test's own, which it may spoil for everybody who uses it."""

import contextlib
import json

from django.conf import settings
from django.core.management import call_command
from django.db import connections

from tests import server_programs, servers

# What the workers are there: on MySQL and MariaDB the tests' own user may do what others
# may not, such as write to a server that is read-only.
USER = "app"


@contextlib.contextmanager
def started(**server_settings):
    """Run a server of this run's kind; yields the Server. For `server_settings` see there."""
    program = server_programs.find(settings.DATABASE)
    with servers.running([program], **server_settings) as (server,):
        yield server


@contextlib.contextmanager
def used(server):
    """Have this process's default database on that server, empty and migrated.

    Yields the environment in which a worker uses it, too.
    """
    with elsewhere(HOST="127.0.0.1", PORT=str(server.port)) as own:
        try:
            user = _create(connections["default"])
            call_command("migrate", "leasequeue", verbosity=0)
            names = dict.fromkeys(connections, own["NAME"])
            yield {
                server.variable: server.url.replace("leasequeue@", f"{user}@"),
                "LEASEQUEUE_TEST_NAMES": json.dumps(names),
            }
        finally:
            _drop(connections["default"])


@contextlib.contextmanager
def elsewhere(**changes):
    """Change this process's settings of its default database; yields them."""
    own = connections.settings["default"]
    usual = dict(own)
    _forget()
    # In place, so that connections of other threads lead there too.
    own.update(changes)
    try:
        yield own
    finally:
        _forget()
        own.clear()
        own.update(usual)


def _forget():
    # A new connection object, since the old one keeps what it learned about its server.
    connections["default"].close()
    del connections["default"]


def _create(connection):
    name, user = connection.ops.quote_name(connection.settings_dict["NAME"]), USER
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        if connection.vendor == "postgresql":
            return connection.settings_dict["USER"]
        cursor.execute(f"CREATE USER IF NOT EXISTS {user}@'%'")
        cursor.execute(f"GRANT ALL ON {name}.* TO {user}@'%'")
    return user


def _drop(connection):
    connection.close()
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    # The workers are ended later than the test.
    force = " WITH (FORCE)" if connection.vendor == "postgresql" else ""
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}{force}")
