"""Imports go down the floors only: the contracts of pyproject.toml hold."""

import ast
import subprocess
import sys
import tomllib

import pytest

from tests.processes import ROOT


def test_import_contracts():
    program = (
        "from importlinter.cli import lint_imports_command; lint_imports_command()"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "0 broken" in process.stdout


def words():
    """The files of the lowest floor, but for db, which has the ways to write."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    [layers] = [
        contract["layers"]
        for contract in contracts["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    for name in layers[-1].split(" : "):
        path = ROOT / "django_leasequeue" / name.strip("()")
        if path.name != "db":
            yield from (
                path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
            )


WRITES = {"save", "delete", "create", "bulk_create", "bulk_update", "get_or_create"}


@pytest.mark.parametrize("path", list(words()), ids=lambda path: path.stem)
def test_words_write_no_rows(path):
    """They say which columns; writing them is for the transitions."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    assert [
        ast.unparse(call)
        for call in calls
        # A dict's update() is not given keywords here.
        if call.func.attr in WRITES or (call.func.attr == "update" and call.keywords)
    ] == []
