"""The browser and the server of the session, and the visitor of each test."""

import pytest
from django.conf import settings

from tests.browser import programs, server
from tests.browser.chrome import start
from tests.browser.visitor import Visitor
from tests.server_programs import ServerMissing


@pytest.fixture(scope="session")
def chrome():
    """The browser, started once; skips where there is none."""
    if settings.DATABASE != "sqlite":
        pytest.skip("pages are alike on every database: see SQLite")
    try:
        found = programs.find()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    driver = start(found)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def served():
    """The URL of the test project, under a strict policy."""
    with server.running(settings.MIDDLEWARE) as url:
        yield url


@pytest.fixture
def visitor(chrome, served, admin_client):
    """A superuser in the browser; what the console still says then fails the test."""
    visitor = Visitor(chrome, served)
    visitor.log_in(admin_client)
    yield visitor
    visitor.leave()
