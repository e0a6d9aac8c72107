"""Fixtures of the tests that kill and stop real workers."""

import pytest
from django.db import connection

from tests import private
from tests.workers import SETTINGS


@pytest.fixture
def worker(worker_process):
    """Start a real worker that knows the tasks of tests.worker_tasks."""
    return lambda *arguments: worker_process(*arguments, settings=SETTINGS)


@pytest.fixture(scope="session")
def spoilt_server():
    """A server that serves the tests of what befalls a server, one after the other."""
    with private.started(max_connections="30") as server:
        yield server


@pytest.fixture
def own_server(request):
    """Use a private server; see private.used. Returns (the Server, a worker's environment)."""
    if connection.vendor == "sqlite":
        pytest.skip("a file has no server")
    server = request.getfixturevalue("spoilt_server")
    with private.used(server) as environment:
        yield server, environment
