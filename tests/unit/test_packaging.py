"""The built wheel holds what the package needs, and promises what the matrix runs."""

import email
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests.__main__ import PAIRS
from tests.processes import ROOT


@pytest.fixture(scope="module")
def wheel(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    name = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    return email.message_from_string(wheel.read(name).decode())


def package_files():
    files = (path for path in (ROOT / "django_leasequeue").rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT).as_posix()
        for path in files
        if "__pycache__" not in path.parts
    }


@pytest.mark.parametrize(
    "name",
    [
        "django_leasequeue/locale/de/LC_MESSAGES/django.mo",
        "django_leasequeue/py.typed",
        "django_leasequeue/migrations/0001_initial.py",
        "django_leasequeue/management/commands/runjobs.py",
    ],
)
def test_wheel_has(wheel, name):
    assert name in wheel.namelist()


def test_wheel_has_the_package_and_nothing_else(wheel):
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert inside == package_files()


def test_wheel_was_built_from_the_sdist_and_is_what_lies_here(wheel):
    """Nothing is lost on the way, and nothing of an older build is in it."""
    for name in package_files():
        assert wheel.read(name) == (ROOT / name).read_bytes(), name


def test_their_checkers_find_nothing(built):
    """What an index would refuse, and files where they don't belong."""
    files = [*built.iterdir()]
    assert len(files) == 2
    for command in (
        ["twine", "check", "--strict", *files],
        ["check_wheel_contents", *built.glob("*.whl")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_sdist_has_package_tests_and_demo(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "tests/settings.py",
    }
    wanted |= {"example_project/__main__.py", *package_files()}
    assert wanted <= names


def test_licence(metadata, wheel):
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())


def test_the_changelog_begins_with_this_version(metadata):
    heading = re.search(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heading[1] in (metadata["Version"], "Unreleased")


def test_classifiers_name_what_the_matrix_runs(metadata):
    classifiers = metadata.get_all("Classifier")
    pythons = [c.rpartition(" ")[2] for c in classifiers if "Python :: 3." in c]
    djangos = [c.rpartition(" ")[2] for c in classifiers if "Django :: " in c]
    assert pythons == list(PAIRS)
    assert djangos == list(PAIRS.values())


def test_core_needs_no_driver(metadata):
    core = [
        need for need in metadata.get_all("Requires-Dist") if "extra ==" not in need
    ]
    names = {need.partition("<")[0].partition(">")[0].lower() for need in core}
    assert names == {"cronsim", "django", "rich"}
    assert {"postgres", "mysql", "dev"} <= set(metadata.get_all("Provides-Extra"))
