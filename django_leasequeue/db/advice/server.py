"""Advice that the database itself gives rise to, as it answers now."""

from collections.abc import Iterator
from typing import Any

from django.db import transaction

from django_leasequeue.db.advice.kinds import Advice, isolation_advice
from django_leasequeue.db.advice.options import named_isolation
from django_leasequeue.db.locks import reads_are_fresh

# The oldest that the test matrix runs, by Django's display_name.
OLDEST = {
    "PostgreSQL": (15,),
    "MySQL": (8, 4),
    "MariaDB": (10, 11),
    "SQLite": (3, 37),
}


def from_server(connection: Any, tables: list[str]) -> Iterator[Advice]:
    """Yield what should be different about one of the SUPPORTED databases; asks it.

    `tables`: the queue's own, whether they exist yet or not.
    """
    yield from _version(connection)
    yield from _skip_locked(connection)
    if connection.vendor == "sqlite":
        yield from _journal(connection)
        return
    yield from _isolation(connection)
    if connection.vendor == "mysql":
        yield from _charset_of_connection(connection)
        yield from _charset_of_tables(connection, tables)
        yield from _engine(connection, tables)


def _version(connection: Any) -> Iterator[Advice]:
    name = connection.display_name
    found, oldest = connection.get_database_version(), OLDEST.get(name)
    if oldest and found < oldest:
        wanted, has = (".".join(map(str, version)) for version in (oldest, found))
        yield Advice(
            "W107",
            f"Database {connection.alias!r} is {name} {has}; nothing older than {wanted} "
            "is tested.",
            f"Upgrade to {name} {wanted} or newer.",
        )


def _skip_locked(connection: Any) -> Iterator[Advice]:
    features = connection.features
    if (
        features.has_select_for_update
        and not features.has_select_for_update_skip_locked
    ):
        yield Advice(
            "W108",
            f"The server of database {connection.alias!r} has no SKIP LOCKED, so workers "
            "wait for each other at every claim.",
            "Run one worker process, or upgrade the server.",
        )


def _journal(connection: Any) -> Iterator[Advice]:
    if connection.is_in_memory_db():
        return
    [mode] = _row(connection, "PRAGMA journal_mode")
    if mode != "wal":
        yield Advice(
            "W105",
            f"SQLite database {connection.alias!r} is in journal mode {mode.upper()}, in "
            "which whoever reads keeps workers from writing.",
            f"Set DATABASES[{connection.alias!r}]['OPTIONS']['init_command'] = "
            "'PRAGMA journal_mode=WAL'.",
        )


def _isolation(connection: Any) -> Iterator[Advice]:
    if named_isolation(connection) is not None:
        return  # told from the settings, without the server
    # Only inside a transaction does every driver say what the server really does.
    with transaction.atomic(using=connection.alias):
        fresh = reads_are_fresh(connection)
    if not fresh:
        yield isolation_advice(
            connection.alias, "not READ COMMITTED by the server's default"
        )


def _charset_of_connection(connection: Any) -> Iterator[Advice]:
    found = _row(
        connection, "SELECT @@character_set_client, @@character_set_connection"
    )
    if set(found) != {"utf8mb4"}:
        yield Advice(
            "W109",
            f"The connection to database {connection.alias!r} talks {found[0]}, which has "
            "not every character: those it lacks are refused, or stored as question marks.",
            f"Set DATABASES[{connection.alias!r}]['OPTIONS']['charset'] = 'utf8mb4'.",
        )


def _charset_of_tables(connection: Any, tables: list[str]) -> Iterator[Advice]:
    # JSON is utf8mb4 by itself, and BINARY where MariaDB keeps it compressed.
    charsets = _column(
        connection,
        "SELECT DISTINCT character_set_name FROM information_schema.columns "
        "WHERE table_schema = DATABASE() AND table_name IN %s AND character_set_name <> ''",
        tables,
    ) or _row(connection, "SELECT @@character_set_database")
    lacking = sorted({*charsets} - {"utf8mb4"})
    if lacking:
        yield Advice(
            "W110",
            f"Database {connection.alias!r} keeps texts of the queue as "
            f"{' and '.join(lacking)}, which has not every character.",
            "ALTER DATABASE … CHARACTER SET utf8mb4 before the first migrate. In tables that "
            "exist, ALTER TABLE … MODIFY each such column: CONVERT TO would also change the "
            "exact collations of the others.",
        )


def _engine(connection: Any, tables: list[str]) -> Iterator[Advice]:
    engines = _column(
        connection,
        "SELECT DISTINCT engine FROM information_schema.tables "
        "WHERE table_schema = DATABASE() AND table_name IN %s",
        tables,
    )
    others = sorted(set(engines) - {"InnoDB"})
    if others:
        yield Advice(
            "E102",
            f"Tables of the queue in database {connection.alias!r} are {' and '.join(others)}"
            ", which has no transactions: jobs of a rolled-back transaction would be run.",
            "ALTER TABLE … ENGINE=InnoDB.",
        )


def _row(connection: Any, statement: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


def _column(connection: Any, statement: str, tables: list[str]) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [tables])
        return [row[0] for row in cursor.fetchall()]
