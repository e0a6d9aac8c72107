"""The PostgreSQL server of the comparison: a database for each system, and what it counts."""

from typing import Any

import psycopg


class Server:
    """The server of an entry of DATABASES."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self._entry = entry
        self._admin = self.connect(entry)
        self._admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self._wal = "0/0"

    def connect(self, entry: dict[str, Any]) -> psycopg.Connection:
        """Return a connection to a database of the server."""
        place = {"host": entry["HOST"], "port": entry["PORT"], "user": entry["USER"]}
        return psycopg.connect(dbname=entry["NAME"], autocommit=True, **place)

    def database(self, name: str) -> dict[str, Any]:
        """Make a database and return its entry."""
        self._admin.execute(f"CREATE DATABASE peer_{name}")
        return {**self._entry, "NAME": f"peer_{name}"}

    def empty(self, entry: dict[str, Any], tables: tuple[str, ...]) -> None:
        """Remove all jobs of a system."""
        with self.connect(entry) as connection:
            connection.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
            connection.execute("CHECKPOINT")

    def analyze(self, entry: dict[str, Any]) -> None:
        """What autovacuum would have done within a minute, to tables that are not empty."""
        with self.connect(entry) as connection:
            connection.execute("ANALYZE")

    def reset(self) -> None:
        """Count from here."""
        self._admin.execute("SELECT pg_stat_statements_reset()")
        (self._wal,) = self._row("SELECT pg_current_wal_insert_lsn()::text")

    def per_job(self, count: int) -> dict[str, float]:
        """Return statements and bytes of WAL since `reset`, for each of `count` jobs."""
        statements, wal = self._row(
            "SELECT (SELECT sum(calls) FROM pg_stat_statements s JOIN pg_database d"
            " ON d.oid = s.dbid WHERE d.datname LIKE 'peer_%%'),"
            " pg_current_wal_insert_lsn() - %s::pg_lsn",
            self._wal,
        )
        each = max(count, 1)
        return {"statements": float(statements or 0) / each, "WAL B": float(wal) / each}

    def version(self) -> str:
        """Return its version."""
        return self._row("SHOW server_version")[0].split()[0]

    def _row(self, sql: str, *parameters: Any) -> Any:
        return self._admin.execute(sql, parameters or None).fetchone()
