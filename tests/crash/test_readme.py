"""README's first screen, in a project that is made on the spot, by its own commands."""

import os
import signal
import sqlite3
import subprocess
import sys

import django
import pytest
from django.conf import settings

from tests import readme
from tests.helpers import DEADLINE, eventually
from tests.processes import ROOT

pytestmark = pytest.mark.skipif(
    settings.DATABASE != "sqlite",
    reason="Its project is on SQLite; its code runs on each database in database/",
)
# So that the mail can be seen.
CONSOLE = "django.core.mail.backends.console.EmailBackend"
MAIL = (
    f"MAILERS = {{'default': {{'BACKEND': '{CONSOLE}'}}}}"
    if django.VERSION >= (6, 1)
    else f"EMAIL_BACKEND = '{CONSOLE}'"
)


@pytest.fixture
def project(tmp_path):
    """A new project with an app `shop`, and what README puts into its files."""
    run(tmp_path, "-m", "django", "startproject", "site_of_ann", ".")
    run(tmp_path, "manage.py", "startapp", "shop")
    for snippet in readme.snippets(readme.TASKS):
        with (tmp_path / "shop" / "tasks.py").open("a") as file:
            file.write(snippet.code)
    with (tmp_path / "site_of_ann" / "settings.py").open("a") as file:
        file.write('INSTALLED_APPS += ["django_leasequeue", "shop"]\n')
        file.write("".join(s.code for s in readme.snippets(readme.SETTINGS)))
        file.write(f"{MAIL}\n")
    return tmp_path


def environment():
    names = {key: value for key, value in os.environ.items() if "DJANGO" not in key}
    return {**names, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def run(folder, *command):
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * DEADLINE,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_first_screen(project, tmp_path):
    run(project, *command("migrate"))
    run(
        project,
        "manage.py",
        "check",
        "--database",
        "default",
        "--fail-level",
        "WARNING",
    )
    (sign_up,) = readme.snippets(readme.SIGN_UP)
    run(
        project,
        "manage.py",
        "shell",
        "--command",
        f"from shop.tasks import *\n{sign_up.code}",
    )
    log = tmp_path / "log"
    with log.open("wb") as file:
        worker = subprocess.Popen(
            [sys.executable, "-W", "error", *command("runjobs")],
            cwd=project,
            env=environment(),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        eventually(lambda: status(project) == "succeeded" or worker.poll() is not None)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
    assert status(project) == "succeeded", log.read_text()
    assert "Good to have you here." in log.read_text()


def command(name):
    """Return a command of README's, without its `python`."""
    (found,) = [words for words in readme.commands() if words.endswith(f" {name}")]
    python, *rest = found.split()
    assert python == "python"
    return rest


def status(project):
    with sqlite3.connect(project / "db.sqlite3") as database:
        rows = database.execute("SELECT status FROM leasequeue_job").fetchall()
    database.close()
    assert len(rows) == 1, rows
    return rows[0][0]
