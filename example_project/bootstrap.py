"""What README's two commands need before anything is installed.

Makes virtual environments and asks Debian's apt-get for what is missing, by nothing but
the standard library.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv"
OLDEST_PYTHON = (3, 11)
# Others may be installing just now, as unattended upgrades do, and a mirror may stumble.
APT = (
    "apt-get",
    "-qq",
    "-o",
    "DPkg::Lock::Timeout=300",
    "-o",
    "Acquire::Retries=3",
)


class CannotInstall(Exception):
    """Something is missing and can't be installed from here; the message says what to do."""


def check_python():
    """Exit with a clear word if this Python is too old to go on."""
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        sys.exit(
            f"Python {oldest} or newer is needed; this is {sys.version.split()[0]}."
        )


def virtual_environment(name, *requirements, python=sys.executable):
    """Make `.venv/NAME` with what pip is asked for, or take the one that is there.

    It is made anew when pyproject.toml, the Python or the requirements have changed.
    Returns the path of its Python. Raises CannotInstall.
    """
    folder = FOLDER / name
    program = folder / "bin" / "python"
    stamp = folder / "made-from"
    made_from = _fingerprint(python, requirements)
    if stamp.exists() and stamp.read_text() == made_from:
        return program
    shutil.rmtree(folder, ignore_errors=True)
    print(f"Making {folder.relative_to(ROOT)} ...", flush=True)
    _create(folder, python)
    pip = [program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # A download that stands still for 15 s would fail for good.
    patient = ["--timeout", "120"]
    _run(
        [*pip, *patient, *requirements],
        f"pip could not install {' '.join(requirements)}",
    )
    stamp.write_text(made_from)
    return program


def apt_install(packages, purpose):
    """Install Debian packages; never removes one. Raises CannotInstall.

    `purpose` ends the sentence "... is needed to".
    """
    wanted = " ".join(packages)
    advice = f"{wanted} is needed to {purpose}"
    if not shutil.which("apt-get"):
        raise CannotInstall(f"{advice} (these are Debian's names for the packages)")
    prefix = _root_prefix()
    if prefix is None:
        raise CannotInstall(f"{advice}: sudo apt-get install {wanted}")
    print(f"Installing {wanted}, to {purpose} ...", flush=True)
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", *APT]
    _apt_update(tuple(apt))
    install = ["install", "-y", "--no-remove", "--no-install-recommends"]
    with _no_cluster(prefix):
        _run([*apt, *install, *packages], f"apt-get could not install {wanted}")


@contextlib.contextmanager
def _no_cluster(prefix):
    """Keep Debian's PostgreSQL packages from making and starting a server of their own."""
    folder = "/etc/postgresql-common/createcluster.d"
    file = f"{folder}/zz-leasequeue-tests.conf"
    script = f"mkdir -p {folder} && echo 'create_main_cluster = false' > {file}"
    _run([*prefix, "sh", "-c", script], f"{file} could not be written")
    try:
        yield
    finally:
        _run([*prefix, "rm", "-f", file], f"{file} could not be removed")


@functools.cache
def _apt_update(apt):
    _run([*apt, "update"], "apt-get update failed")


def _root_prefix():
    """Return what to put before a command to run it as root; None if that can't be."""
    if os.getuid() == 0:
        return []
    sudo = ["sudo", "-n"]  # never asks for a password
    if shutil.which("sudo") and succeeds([*sudo, "true"]):
        return sudo
    return None


def _create(folder, python):
    # Debian's python3 has the venv module but not what it puts into a new environment.
    if not succeeds([python, "-c", "import ensurepip, venv"]):
        version = output(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        )
        apt_install([f"python{version}-venv"], "make virtual environments")
    _run([python, "-m", "venv", folder], f"{python} could not make {folder}")


def _fingerprint(python, requirements):
    version = output([python, "-c", "import sys; print(sys.version, sys.prefix)"])
    parts = [version, *requirements, str(ROOT), (ROOT / "pyproject.toml").read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def succeeds(command):
    """Whether a command ends well; what it says is not shown."""
    return subprocess.run(command, capture_output=True).returncode == 0


def output(command):
    """Return what a command prints. Raises CalledProcessError."""
    return subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.strip()


def _run(command, complaint):
    """Run a command quietly; show what it said only if it fails."""
    process = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if process.returncode != 0:
        raise CannotInstall(f"{complaint}:\n{process.stdout[-4000:]}")
