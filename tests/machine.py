"""What this machine has for the tests, and getting what it lacks."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from example_project import bootstrap
from example_project.bootstrap import CannotInstall
from tests import server_programs
from tests.browser import programs as browser_programs
from tests.server_programs import ServerMissing

PACKAGES = {
    "postgres": ["postgresql"],
    "mariadb": ["mariadb-server-core", "mariadb-client-core"],
}
GET_MYSQL = bootstrap.ROOT / ".ci" / "get-mysql"
GET_GALERA = bootstrap.ROOT / ".ci" / "get-galera"


@dataclass(frozen=True)
class Interpreter:
    """A Python that is installed here."""

    path: str
    version: tuple[int, ...]

    @property
    def series(self):
        return "{}.{}".format(*self.version)

    def __str__(self):
        return ".".join(map(str, self.version))


def server_program(kind, *, install=True):
    """Return the server of a kind, installed if need be. Raises ServerMissing."""
    try:
        return server_programs.find(kind)
    except ServerMissing as missing:
        if not install:
            raise
        try:
            _install_server(kind)
        except CannotInstall as error:
            raise ServerMissing(f"{missing}; {error}") from None
    return server_programs.find(kind)


def pooler(*, install=True):
    """Return PgBouncer, installed if need be. Raises ServerMissing."""
    try:
        return server_programs.pooler()
    except ServerMissing as missing:
        if not install:
            raise
        try:
            bootstrap.apt_install(["pgbouncer"], "test behind a pooler")
        except CannotInstall as error:
            raise ServerMissing(f"{missing}; {error}") from None
    return server_programs.pooler()


def browser(*, install=True):
    """Return the Programs of Chromium, installed if need be. Raises ServerMissing."""
    try:
        return browser_programs.find()
    except ServerMissing as missing:
        if not install:
            raise
        if browser_programs.come_as_snaps():
            raise ServerMissing(browser_programs.SNAP) from None
        try:
            bootstrap.apt_install(browser_programs.PACKAGES, "test in a browser")
        except CannotInstall as error:
            raise ServerMissing(f"{missing}; {error}") from None
    return browser_programs.find()


def galera(*, install=True):
    """Return Galera, unpacked into a private folder if need be. Raises ServerMissing."""
    try:
        return server_programs.galera()
    except ServerMissing as missing:
        if not install or not shutil.which("apt-get"):
            raise
        try:
            _unpack(GET_GALERA, server_programs.galera_folder())
        except CannotInstall as error:
            raise ServerMissing(f"{missing}; {error}") from None
    return server_programs.galera()


def interpreter(series):
    """Return the Python of a series such as "3.13"; None if there is none here."""
    candidates = [sys.executable, shutil.which(f"python{series}"), *_pyenv(series)]
    for candidate in filter(None, candidates):
        found = _ask(candidate)
        # pyenv's shims stand for every version that it has, but run only the chosen ones.
        if found and found.series == series:
            return found
    return None


def this_interpreter():
    return Interpreter(sys.executable, tuple(sys.version_info[:3]))


def prepare_mysqlclient(python):
    """See to what pip needs to build mysqlclient. Raises CannotInstall."""
    purpose = f"build mysqlclient for Python {python.series}"
    missing = []
    if not shutil.which("gcc") and not shutil.which("cc"):
        missing += ["gcc", "libc6-dev"]
    if not shutil.which("pkg-config"):
        missing.append("pkg-config")
    if not _has_client_library():
        missing.append("libmariadb-dev")
    if not _has_headers(python):
        missing.append(f"python{python.series}-dev")
    if missing:
        bootstrap.apt_install(missing, purpose)


def _install_server(kind):
    purpose = f"test on {server_programs.NAMES[kind]}"
    if kind in PACKAGES:
        bootstrap.apt_install(PACKAGES[kind], purpose)
        return
    if not shutil.which("apt-get"):
        name = server_programs.OVERRIDES[kind]
        raise CannotInstall(
            f"set {name} to the path of its server program to {purpose}"
        )
    print("Unpacking a private MySQL ...", flush=True)
    _unpack(GET_MYSQL, server_programs.mysql_folder())


def _unpack(script, folder):
    folder.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.run(
        [script, folder], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if process.returncode != 0:
        raise CannotInstall(f"{script.name} failed:\n{process.stderr[-2000:]}")


def _has_client_library():
    names = ["mysqlclient", "libmariadb", "mariadb"]
    if not shutil.which("pkg-config"):
        return False
    return any(bootstrap.succeeds(["pkg-config", "--exists", name]) for name in names)


def _has_headers(python):
    script = "import sysconfig; print(sysconfig.get_path('include'))"
    process = subprocess.run(
        [python.path, "-c", script], capture_output=True, text=True
    )
    return Path(process.stdout.strip(), "Python.h").exists()


def _ask(path):
    script = "import sys; print(*sys.version_info[:3], sys.executable)"
    try:
        process = subprocess.run([path, "-c", script], capture_output=True, text=True)
    except OSError:
        return None
    words = process.stdout.split(maxsplit=3)
    if process.returncode != 0 or len(words) != 4:
        return None
    return Interpreter(words[3].strip(), tuple(map(int, words[:3])))


def _pyenv(series):
    """Paths of the Pythons of a series that pyenv has, newest first."""
    if not shutil.which("pyenv"):
        return []
    listing = subprocess.run(["pyenv", "root"], capture_output=True, text=True)
    versions = Path(listing.stdout.strip() or os.devnull, "versions")
    found = [path for path in versions.glob(f"{series}.*") if path.name.count(".") == 2]
    found = [path for path in found if path.name.rpartition(".")[2].isdigit()]
    found.sort(key=lambda path: int(path.name.rpartition(".")[2]), reverse=True)
    return [str(path / "bin" / "python") for path in found]
