"""The database between and during measures, as the benchmark's own connection sees it."""

from django.db import connection

from benchmarks.floors import TABLE
from django_leasequeue.models import Job, Queue

JOBS = Job._meta.db_table
_UNFINISHED = {
    JOBS: f"SELECT 1 FROM {JOBS} WHERE status IN ('pending', 'running') LIMIT 1",
    TABLE: f"SELECT 1 FROM {TABLE} WHERE status <> 2 LIMIT 1",
}


def empty() -> None:
    """Remove all jobs of both kinds, and pauses."""
    for table in _UNFINISHED:
        if connection.vendor == "sqlite":
            fetch(f"DELETE FROM {table}")
        else:
            fetch(f"TRUNCATE TABLE {table}")
    Queue.objects.all().delete()


def analyze(table: str) -> None:
    """Have the planner look at a table that has just been filled."""
    words = "ANALYZE TABLE" if connection.vendor == "mysql" else "ANALYZE"
    fetch(f"{words} {table}")


def unfinished(table: str) -> bool:
    """Whether a job of the table has not ended."""
    return bool(fetch(_UNFINISHED[table]))


def counters() -> dict[str, float]:
    """Return what the server has counted since its start: statements, bytes of WAL."""
    if connection.vendor == "postgresql":
        (row,) = fetch("SELECT pg_current_wal_insert_lsn() - '0/0'")
        return {"WAL bytes": float(row[0]), **_statements()}
    if connection.vendor == "mysql":
        (row,) = fetch("SHOW GLOBAL STATUS LIKE 'Questions'")
        return {"statements": float(row[1])}
    return {}


def _statements() -> dict[str, float]:
    if fetch("SHOW shared_preload_libraries") == [("",)]:
        return {}
    fetch("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    (row,) = fetch("SELECT sum(calls) FROM pg_stat_statements")
    return {"statements": float(row[0])}


def per_job(before: dict[str, float], count: int) -> dict[str, float]:
    """Return what was counted since `before`, for each of `count` jobs."""
    now = counters()
    return {name: (now[name] - before[name]) / count for name in before}


def server_version() -> str:
    """Return the version of the database."""
    if connection.vendor == "postgresql":
        return fetch("SHOW server_version")[0][0].split()[0]
    name = "sqlite_version" if connection.vendor == "sqlite" else "version"
    return fetch(f"SELECT {name}()")[0][0]


def fetch(sql: str, parameters=None) -> list:
    """Return the rows of a statement; none if it returns none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall()) if cursor.description else []
