"""The fixtures harm no project in whose environment the package is installed."""

import os
import subprocess
import sys
import tomllib

from tests.processes import ROOT


def test_a_project_without_django(tmp_path):
    """pytest imports every plugin, whether Django is ever set up or not."""
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    # Whether the package is installed here or only on the path: its plugin is named below.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    env = {**os.environ, **alone}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plugin = project["entry-points"]["pytest11"]["leasequeue"]
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", plugin]
    process = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert "1 passed" in process.stdout, process.stdout + process.stderr
