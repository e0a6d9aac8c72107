"""A private, durable server, and a database in it, for one benchmark.

The tests' servers forgo durability; these keep their defaults, since commits are a good part
of what a queue costs.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests import machine, servers

ROOT = Path(__file__).parent.parent
KINDS = ("sqlite", "postgres", "mariadb", "mysql")
ENGINES = {
    "sqlite": "django.db.backends.sqlite3",
    "postgres": "django.db.backends.postgresql",
    "mariadb": "django.db.backends.mysql",
    "mysql": "django.db.backends.mysql",
}


@contextlib.contextmanager
def database(kind: str) -> Iterator[dict[str, Any]]:
    """Run a server and yield an entry of DATABASES for a migrated database in it.

    Raises ServerMissing if the machine has no such server, ServerFailed if it won't start.
    """
    with served(kind) as (entry, _):
        yield entry


@contextlib.contextmanager
def served(kind: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the entry as `database` does, and the server, which is None for SQLite."""
    server = None
    with contextlib.ExitStack() as stack:
        if kind == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            entry = _sqlite(Path(folder) / "benchmark.sqlite3")
        else:
            program = machine.server_program(kind)
            running = servers.running([program], True, **_counting(program))
            (server,) = stack.enter_context(running)
            entry = server_entry(kind, server.url)
            create(kind, entry)
        migrate(entry)
        yield entry, server


def migrate(entry: dict[str, Any]) -> None:
    """Make the tables. Raises CalledProcessError."""
    run([sys.executable, "-m", "django", "migrate", "--run-syncdb", "-v0"], entry)


def environment(entry: dict[str, Any], **more: str) -> dict[str, str]:
    """Return the environment of a process that works on the database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
        "BENCHMARK_DATABASE": json.dumps(entry),
        "PYTHONPATH": str(ROOT),
        **more,
    }


def run(command: list[str], entry: dict[str, Any]) -> None:
    """Run a command on the database to its end. Raises CalledProcessError."""
    subprocess.run(command, env=environment(entry), cwd=ROOT, check=True)


def _counting(program) -> dict[str, str]:
    # Not every packager puts it beside the server.
    name = "pg_stat_statements"
    library = program.path.parent.parent / "lib" / f"{name}.so"
    return {"shared_preload_libraries": name} if library.exists() else {}


def _sqlite(path: Path) -> dict[str, Any]:
    pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"
    options = {"init_command": pragmas, "transaction_mode": "IMMEDIATE", "timeout": 60}
    return {"ENGINE": ENGINES["sqlite"], "NAME": str(path), "OPTIONS": options}


def server_entry(kind: str, url: str) -> dict[str, Any]:
    """Return the entry of DATABASES for the benchmarks' database on a server."""
    place = urlsplit(url)
    return {
        "ENGINE": ENGINES[kind],
        "NAME": "benchmark",
        "HOST": place.hostname,
        "PORT": str(place.port),
        "USER": place.username,
    }


def create(kind: str, entry: dict[str, Any]) -> None:
    """Create that database."""
    if kind == "postgres":
        import psycopg

        options = {"user": entry["USER"], "dbname": "postgres", "autocommit": True}
        with psycopg.connect(host=entry["HOST"], port=entry["PORT"], **options) as one:
            one.execute("CREATE DATABASE benchmark")
            return
    import MySQLdb

    place = {"host": entry["HOST"], "port": int(entry["PORT"])}
    connection = MySQLdb.connect(user=entry["USER"], **place)
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE benchmark CHARACTER SET utf8mb4")
