"""Imports go down the floors only: the contracts of pyproject.toml hold."""

import subprocess
import sys

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
