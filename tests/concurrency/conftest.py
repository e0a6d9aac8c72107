"""Fixtures of the tests of races."""

import sys

import pytest

from tests.helpers import DEADLINE


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Nobody gives up because a machine is busy; a test that wants that sets a limit itself."""
    for name, module in list(sys.modules.items()):
        for limit in ("RERUN_FOR", "TIME_LIMIT"):
            if name.startswith("django_leasequeue.") and hasattr(module, limit):
                monkeypatch.setattr(module, limit, DEADLINE)
