"""Where the machine keeps its database servers, and whether they are new enough."""

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MINIMUM = {"postgres": (15,), "mariadb": (10, 11), "mysql": (8, 4)}
NAMES = {"postgres": "PostgreSQL", "mariadb": "MariaDB", "mysql": "MySQL"}
# Environment variables that name a server's program outright.
OVERRIDES = {"postgres": "POSTGRES", "mariadb": "MARIADBD", "mysql": "MYSQLD"}


class ServerMissing(Exception):
    """This machine has no such server, or only one that is too old."""


@dataclass(frozen=True)
class Program:
    """A server's executable."""

    kind: str
    path: Path
    version: str

    def __str__(self):
        return f"{NAMES[self.kind]} {self.version}"


def mysql_folder():
    """Where `.ci/get-mysql` puts MySQL, which few distributions package.

    For root a folder that every user may read, since the server then runs as nobody.
    """
    if os.getuid() == 0:
        return Path("/var/cache/leasequeue-tests/mysql")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "leasequeue-tests" / "mysql"


@functools.cache
def find(kind):
    """Return the newest usable Program of a kind. Raises ServerMissing."""
    found = [program for program in map(_program, _candidates(kind)) if program]
    programs = [program for program in found if program.kind == kind]
    usable = [p for p in programs if _numbers(p.version) >= MINIMUM[kind]]
    if usable:
        return max(usable, key=lambda program: _numbers(program.version))
    needed = f"{NAMES[kind]} {'.'.join(map(str, MINIMUM[kind]))} or newer"
    if programs:
        versions = ", ".join(program.version for program in programs)
        raise ServerMissing(f"{NAMES[kind]} {versions} is too old: needs {needed}")
    raise ServerMissing(f"{needed} is not installed")


def pooler():
    """Return the Program of PgBouncer. Raises ServerMissing."""
    override = os.environ.get("PGBOUNCER")
    path = Path(override) if override else _on_path("pgbouncer")
    if path is None:
        raise ServerMissing("PgBouncer is not installed")
    return Program("pgbouncer", path, "")


@dataclass(frozen=True)
class Galera:
    """What makes a MariaDB part of a cluster: a library, and folders to look in besides."""

    library: Path
    programs: Path | None = None
    libraries: Path | None = None


def galera_folder():
    """Where `.ci/get-galera` puts Galera."""
    return mysql_folder().with_name("galera")


def galera():
    """Return the machine's Galera, or the private one. Raises ServerMissing."""
    name = "libgalera_smm.so"
    installed = Path("/usr/lib/galera") / name
    if installed.exists() and _on_path("rsync") and _on_path("wsrep_sst_rsync"):
        return Galera(installed)
    folder = galera_folder()
    if (folder / "complete").exists():
        return Galera(folder / "lib" / name, folder / "bin", folder / "lib")
    raise ServerMissing("Galera is not installed")


def _candidates(kind):
    override = os.environ.get(OVERRIDES[kind])
    if override:
        return [Path(override)]
    if kind == "postgres":
        # Debian and Red Hat keep the servers off the PATH, a folder for each version.
        places = [
            *Path("/usr/lib/postgresql").glob("*/bin"),
            *Path("/usr").glob("pgsql-*/bin"),
        ]
        found = [place / "postgres" for place in places]
        found += [_on_path("postgres")]
        return [path for path in found if path and path.with_name("initdb").exists()]
    names = {"mariadb": ["mariadbd", "mysqld"], "mysql": ["mysqld"]}[kind]
    found = [_on_path(name) for name in names]
    if kind == "mysql":
        found.append(mysql_folder() / "mysqld")
    return [path for path in found if path]


def _on_path(name):
    # Not resolved: a program looks for its companions beside the name it was called by.
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return Path(path) if path else None


def _program(path):
    try:
        process = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+(\.\d+)+", process.stdout)
    if process.returncode != 0 or not match:
        return None
    if "PostgreSQL" in process.stdout:
        kind = "postgres"
    else:
        kind = "mariadb" if "MariaDB" in process.stdout else "mysql"
    return Program(kind, path, match.group())


def _numbers(version):
    return tuple(map(int, version.split(".")))
