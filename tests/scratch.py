"""A database of its own for a test that changes tables or needs another kind of database."""

import contextlib
import os
from pathlib import Path

from django.core.management import call_command
from django.db import connections

from tests.helpers import new_connection


@contextlib.contextmanager
def scratch_database(alias="other", *, charset=None, migrated=True, **settings):
    """Point `alias` at a new empty database on the run's server; yields the alias.

    The test's django_db mark names the alias among its `databases`, with `transaction=True`
    unless a fixture of its module keeps the database around all tests. `charset`: the
    database's default, on MySQL and MariaDB. `migrated`: whether it has the package's
    tables. `settings`: what else differs in its DATABASES entry, by key.
    """
    usual = dict(connections.settings[alias])
    name = _name(usual["NAME"], connections[alias].vendor)
    _forget(alias)
    _create(name, charset)
    try:
        # In place, so that connections of other threads lead there too.
        connections.settings[alias].update(settings, NAME=name)
        if migrated:
            call_command("migrate", "leasequeue", database=alias, verbosity=0)
        yield alias
    finally:
        _forget(alias)
        connections.settings[alias].update(usual)
        _drop(name)


def _forget(alias):
    # A new connection object, since the old one keeps what it learned about its database.
    connections[alias].close()
    del connections[alias]


def _name(usual, vendor):
    mark = os.urandom(4).hex()
    if vendor == "sqlite":
        return str(Path(usual).with_name(f"scratch-{mark}.sqlite3"))
    return f"{usual}_{mark}"


def _create(name, charset):
    with new_connection() as connection:
        if connection.vendor == "sqlite":
            return  # comes into being when it is first written to
        of = f" CHARACTER SET {charset}" if charset else ""
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(name)}{of}")


def _drop(name):
    with new_connection() as connection:
        if connection.vendor == "sqlite":
            for file in Path(name).parent.glob(f"{Path(name).name}*"):
                file.unlink(missing_ok=True)
            return
        # A thread of the test may not have closed its connection yet.
        force = " WITH (FORCE)" if connection.vendor == "postgresql" else ""
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {connection.ops.quote_name(name)}{force}")
