"""Advice that DATABASES alone gives rise to; nothing is asked of the database."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_leasequeue.conf import conf
from django_leasequeue.db.advice.kinds import Advice, isolation_advice
from django_leasequeue.db.notify import can_be_told

SUPPORTED = frozenset({"postgresql", "mysql", "sqlite"})
# What Python's sqlite3 waits for the write lock unless told otherwise. Workers hold it for
# milliseconds; a web request that is slow inside a transaction is what is waited for.
SHORTEST_TIMEOUT = 5.0
# What psycopg_pool has unless told otherwise.
POOL_SIZE = 4


def from_options(connection: Any) -> Iterator[Advice]:
    """Yield what the settings of a connection's database should be."""
    alias, options = connection.alias, connection.settings_dict["OPTIONS"]
    if connection.vendor not in SUPPORTED:
        yield Advice(
            "E101",
            f"Database {alias!r} is {connection.display_name}, on which leases and dedup ids "
            "do not work.",
            "Keep the jobs on PostgreSQL, MySQL, MariaDB or SQLite, with a database router "
            "if the project's own tables stay where they are.",
        )
        return
    if not connection.settings_dict["AUTOCOMMIT"]:
        yield Advice(
            "E118",
            f"Database {alias!r} has AUTOCOMMIT off, so that nothing a worker writes is ever "
            "committed: jobs would be run again and again.",
            f"Leave DATABASES[{alias!r}]['AUTOCOMMIT'] at True; transaction.atomic() begins "
            "transactions.",
        )
    if connection.vendor != "sqlite":
        level = named_isolation(connection)
        if level not in (None, "READ COMMITTED"):
            yield isolation_advice(alias, level)
        yield from _driver(connection)
        yield from _pool(alias, options.get("pool"))
    # A database in memory is nobody else's, so there is nothing to wait for.
    elif not connection.is_in_memory_db():
        yield from _sqlite(alias, options)


def named_isolation(connection: Any) -> str | None:
    """Return the isolation level that OPTIONS names, None if the server is to decide."""
    options = connection.settings_dict["OPTIONS"]
    if connection.vendor == "mysql":
        # Django's default is not the server's.
        return (options.get("isolation_level", "read committed") or "").upper() or None
    if "isolation_level" not in options:
        return None
    # Here, since it needs a driver for PostgreSQL.
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    with suppress(ValueError):  # Django says so itself when it connects
        level = IsolationLevel(options["isolation_level"]).name.replace("_", " ")
        # PostgreSQL has no dirty reads.
        return "READ COMMITTED" if level == "READ UNCOMMITTED" else level
    return None


def _driver(connection: Any) -> Iterator[Advice]:
    if connection.vendor == "postgresql" and not can_be_told():
        yield Advice(
            "W113",
            f"Database {connection.alias!r} is used with psycopg2, whose connections workers "
            "can't wait for, so that they poll for jobs.",
            "Install psycopg 3, or silence this.",
        )


def _pool(alias: str, pool: Any) -> Iterator[Advice]:
    """What Django 5.1 and newer keep for PostgreSQL, one pool for each process."""
    if not pool:
        return
    given = pool if isinstance(pool, dict) else {}
    most = given.get("max_size") or given.get("min_size", POOL_SIZE)
    with suppress(ImproperlyConfigured):  # which the checks of the settings tell
        if isinstance(most, int) and most < conf.threads:
            yield Advice(
                "W117",
                f"The pool of database {alias!r} has {most} connections, and a worker runs "
                f"{conf.threads} jobs at once, LEASEQUEUE['THREADS']: some wait for a "
                "connection, and fail if they get none.",
                f"Set DATABASES[{alias!r}]['OPTIONS']['pool']['max_size'] to "
                f"{conf.threads} or more.",
            )


def _sqlite(alias: str, options: dict[str, Any]) -> Iterator[Advice]:
    where = f"DATABASES[{alias!r}]['OPTIONS']"
    mode = options.get("transaction_mode") or "DEFERRED"
    if mode.upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Advice(
            "W103",
            f"SQLite database {alias!r} begins its transactions without the write lock, so "
            "one that reads first and then writes fails with 'database is locked' if "
            "anybody wrote in between.",
            f"Set {where}['transaction_mode'] = 'IMMEDIATE'.",
        )
    timeout = options.get("timeout", SHORTEST_TIMEOUT)
    if isinstance(timeout, int | float) and timeout < SHORTEST_TIMEOUT:
        yield Advice(
            "W104",
            f"SQLite database {alias!r} waits only {timeout:g} seconds for the write lock, "
            "so that web requests and workers get in each other's way.",
            f"Set {where}['timeout'] to {SHORTEST_TIMEOUT:g} seconds or more, or leave it "
            "out.",
        )
