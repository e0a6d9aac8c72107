"""The dashboard's script: new figures come by themselves, and the reader stays where they are."""

import pytest
from selenium.webdriver.common.keys import Keys

from django_leasequeue.admin import dashboard
from django_leasequeue.db import database_now
from django_leasequeue.models import Queue, Tally
from django_leasequeue.transitions.tally import MINUTE, whole_minute
from tests.admin.looking import JOBS
from tests.factories import JobFactory
from tests.helpers import eventually

DASHBOARD = f"{JOBS}dashboard/"


@pytest.fixture
def board(visitor, monkeypatch):
    """The dashboard, which refreshes often; with a queue and enough to scroll."""
    monkeypatch.setattr(dashboard, "EVERY", 0.05)
    before = whole_minute(database_now("default")) - MINUTE
    Tally.objects.create(minute=before, succeeded=5)
    for number in range(30):
        JobFactory(queue=f"queue {number:02}")
    visitor.open(DASHBOARD)
    return visitor


def ready(visitor):
    return visitor.run(
        "return document.querySelector('.leasequeue-tiles dd')?.textContent"
    )


def test_figures_come_by_themselves_and_the_reader_stays(board):
    """Focus, what is open and what is looked at are kept."""
    board.run(
        "document.querySelector('details').open = true;"
        "window.same = true;"
        "const link = document.querySelector('[data-key=\"queue queue 20\"]');"
        "link.focus(); window.scrollTo(0, 700);"
    )
    before = board.run("return window.scrollY")
    assert before > 0
    JobFactory.create_batch(5, queue="queue 00")
    eventually(lambda: ready(board) == "35")
    assert board.run("return window.same")  # the page itself was not loaded again
    assert board.run("return document.activeElement.dataset.key") == "queue queue 20"
    assert board.run("return document.querySelector('details').open")
    assert abs(board.run("return window.scrollY") - before) < 200


def test_it_stops_when_it_is_told_to(board):
    board.click("#leasequeue-toggle")
    assert "Not refreshed." in board.text()
    JobFactory(queue="queue 00")
    # By hand it goes on as before, without loading the page.
    board.run("window.old = document.querySelector('.leasequeue-tiles')")
    board.click("#leasequeue-reload")
    eventually(lambda: ready(board) == "31")
    assert board.run("return window.old.isConnected") is False
    assert "Not refreshed." in board.text()
    board.click("#leasequeue-toggle")
    JobFactory(queue="queue 00")
    eventually(lambda: ready(board) == "32")
    assert "Not refreshed." not in board.text()


def test_it_says_when_the_server_can_not_be_reached(board):
    board.run(
        "window.real = window.fetch; window.fetch = () => Promise.reject(new Error())"
    )
    eventually(lambda: "The server can't be reached" in board.text())
    # Stopped and started, it tries at once.
    board.click("#leasequeue-toggle")
    board.run("window.fetch = window.real")
    JobFactory(queue="queue 00")
    board.click("#leasequeue-toggle")
    eventually(lambda: ready(board) == "31")
    assert "can't be reached" not in board.text()


def test_it_says_when_it_is_logged_out(board):
    board.driver.delete_all_cookies()
    eventually(lambda: "reload it to log in" in board.text())
    assert board.run(
        "return document.querySelector('#leasequeue-region table') !== null"
    )


def test_a_queue_is_paused_by_a_key(board):
    """The button of its row, however often the row was replaced."""
    board.click("#leasequeue-toggle")
    button = '[data-key="verb queue 07"]'
    board.driver.find_element("css selector", button).send_keys(Keys.ENTER)
    eventually(lambda: Queue.objects.paused().exists())
    eventually(lambda: "“queue 07” is paused." in board.driver.page_source)
    board.check("the answer")
