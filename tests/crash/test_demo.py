"""README's first command, from the point where its virtual environment is made."""

import os
import pty
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from django.conf import settings

from tests.helpers import DEADLINE, eventually
from tests.processes import ROOT

pytestmark = pytest.mark.skipif(
    settings.DATABASE != "sqlite",
    reason="The demo brings its own database, which is always SQLite",
)
MANAGE = ROOT / "example_project" / "manage.py"
FIGURES = {
    "dispatched": 362,
    "skipped": 240,
    "run": 125,
    "retried": 2,
    "recovered": 1,
    "succeeded": 122,
    "failed": 0,
}


@pytest.fixture
def shop(tmp_path):
    """The environment of a shop with a database of its own; nothing may outlive the test."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SHOP_DATABASE": str(tmp_path / "shop.sqlite3"),
        "NO_COLOR": "",
    }
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    yield environment
    left = eventually_none(environment["SHOP_DATABASE"])
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "The demo left processes behind"


def run(shop, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env=shop,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=4 * DEADLINE,
    )


def figures(output):
    """The numbers of the table, by their names."""
    return {
        name: int(number)
        for name, number in re.findall(r"^   ([a-z]+) +(\d+)  ", output, re.MULTILINE)
    }


def test_the_demo_counts_what_it_must_each_time(shop):
    for _ in range(2):
        done = run(shop, MANAGE, "demo")
        assert done.returncode == 0, done.stdout
        assert figures(done.stdout) == FIGURES
        assert "SIGKILL" in done.stdout
        assert "Drained: 121 succeeded, 2 to be retried." in done.stdout
        assert "\x1b" not in done.stdout
        folder = str(Path(shop["SHOP_DATABASE"]).parent)  # is pytest's to name
        for line in done.stdout.splitlines():
            assert len(line) <= 80 or folder in line or sys.executable in line, line
    last_words_open_the_admin(shop, done.stdout)


def last_words_open_the_admin(shop, output):
    command = re.search(r"\$ (.+) runserver$", output, re.MULTILINE)
    password = re.search(r"as admin, password (\S+)$", output, re.MULTILINE)
    assert command and password, output
    script = f"""
from django.test import Client
client = Client(SERVER_NAME="127.0.0.1")
assert client.login(username="admin", password={password[1]!r})
for page in ("", "leasequeue/job/", "shop/order/", "shop/stocktake/"):
    assert client.get(f"/admin/{{page}}").status_code == 200, page
"""
    # The runserver command, with another one's name.
    done = subprocess.run(
        [*command[1].split(), "shell", "--command", script],
        env=shop,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stderr


def test_wrong_numbers_are_told_and_end_it_with_1(shop):
    lie = """
import sys
sys.path.insert(0, "example_project")
import django
django.setup()
from django.core.management import execute_from_command_line
from shop.demo import figures
from shop.management.commands import demo
figures.SKIPPED = 241
figures.ORDERS = 61
execute_from_command_line(["manage.py", "demo"])
"""
    shop["DJANGO_SETTINGS_MODULE"] = "config.settings"
    done = run(shop, "-c", lie)
    assert done.returncode == 1, done.stdout
    assert "skipped is 240, not 241" in done.stdout
    assert "there are 60 orders, not 61" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_demo_takes_its_worker_along(shop, tmp_path, number):
    output = tmp_path / "output"
    with output.open("wb") as file:
        demo = subprocess.Popen(
            [sys.executable, MANAGE, "demo"],
            env=shop,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        # Its worker is there by then, and waits at the blocked shelf.
        eventually(lambda: "SIGKILL" in output.read_text() or demo.poll() is not None)
        demo.send_signal(number)
        assert demo.wait(DEADLINE) == 128 + number, output.read_text()
    finally:
        demo.kill()
        demo.wait()
    assert "Traceback" not in output.read_text()


def test_a_terminal_sees_colours_and_a_progress_bar(shop):
    shop["TERM"] = "xterm-256color"
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    demo = subprocess.Popen(
        [sys.executable, MANAGE, "demo"],
        env=shop,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    output = b""
    try:
        while data := read(main):
            output += data
        assert demo.wait(DEADLINE) == 0, output.decode()
    finally:
        demo.kill()
        demo.wait()
        os.close(main)
    assert b"\x1b[" in output
    assert "123/123" in output.decode(), output.decode()


def read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""  # how Linux says that nobody has the terminal open any more


def eventually_none(database):
    """Return the processes that use the shop and don't end, if any."""

    def gone():
        left = users(database)
        assert not left
        return True

    try:
        eventually(gone)
    except AssertionError:
        return users(database)
    return []


def users(database):
    needle = f"SHOP_DATABASE={database}\0".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if needle in environment.read_bytes():
                found.append(int(environment.parent.name))
        except OSError:
            continue  # it has ended, or is somebody else's
    return found
