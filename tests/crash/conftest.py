"""Fixtures of the tests that kill and stop real workers."""

import pytest

from tests.workers import SETTINGS


@pytest.fixture
def worker(worker_process):
    """Start a real worker that knows the tasks of tests.worker_tasks."""
    return lambda *arguments: worker_process(*arguments, settings=SETTINGS)
