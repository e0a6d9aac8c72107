"""Where the machine keeps the browser of the tests, and the program that drives it."""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.server_programs import ServerMissing

# Debian's names for the packages.
PACKAGES = ["chromium", "chromium-driver"]
# A snap can neither read nor write most of what a test gives it.
SNAP = (
    "Ubuntu's chromium is a snap, which these tests can't drive: install Google Chrome and "
    "the chromedriver of the same version, and set CHROMIUM and CHROMEDRIVER to their paths"
)


class Programs(NamedTuple):
    """The executables of a browser and of its driver, of the same version."""

    chromium: Path
    chromedriver: Path


def find():
    """Return the Programs: of CHROMIUM and CHROMEDRIVER, else Debian's. Raises ServerMissing."""
    chromium = _named("CHROMIUM", "chromium", "google-chrome")
    driver = _named("CHROMEDRIVER", "chromedriver")
    missing = [
        package
        for package, path in zip(PACKAGES, (chromium, driver), strict=True)
        if path is None
    ]
    if missing:
        raise ServerMissing(f"{' and '.join(missing)} is not installed")
    return Programs(chromium, driver)


def come_as_snaps(release=Path("/etc/os-release")):
    """Whether apt-get would install a snap here."""
    lines = release.read_text().splitlines() if release.exists() else []
    words = dict(line.split("=", 1) for line in lines if "=" in line)
    words = {key: value.strip("\"'") for key, value in words.items()}
    return "ubuntu" in (words.get("ID"), *words.get("ID_LIKE", "").split())


def _named(variable, *names):
    override = os.environ.get(variable)
    if override:
        return Path(override)
    found = (shutil.which(name) for name in names)
    return next((Path(path) for path in found if path and not _is_snap(path)), None)


def _is_snap(path):
    if "snap" in Path(path).resolve().parts:
        return True
    with open(path, "rb") as file:
        head = file.read(4096)
    return head.startswith(b"#!") and b"/snap/bin" in head
