"""What the units share: properties without a time limit, and one build of the package."""

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings

from tests.processes import ROOT

# The machine may be busy.
settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A folder with the sdist, and the wheel that was built from it, as for a release."""
    folder = tmp_path_factory.mktemp("dist")
    # Without isolation: the build backend is one of the dev requirements.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return folder
