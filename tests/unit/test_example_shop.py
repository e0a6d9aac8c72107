"""The example project has tests of its own, which use the test kit, and pass."""

import os
import subprocess
import sys

from tests.processes import ROOT


def test_the_shops_tests():
    command = [sys.executable, "-W", "error", "manage.py", "test", "shop"]
    names = {"DJANGO_SETTINGS_MODULE": "config.settings", "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        command,
        cwd=ROOT / "example_project",
        env={**os.environ, **names},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert "Ran 7 tests" in process.stderr
