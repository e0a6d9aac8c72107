"""The wheel in a project that has nothing of this folder: a fresh one, and the example."""

import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.helpers import DEADLINE
from tests.processes import ROOT

SETTINGS = """
INSTALLED_APPS += ["django_leasequeue", "jobs"]
DATABASES["default"]["OPTIONS"] = {
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    "transaction_mode": "IMMEDIATE",
    "timeout": 30,
}
ALLOWED_HOSTS = ["testserver"]
STATIC_ROOT = BASE_DIR / "collected"
# Refuses to name a file that was not collected.
STORAGES = {
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"
    }
}
DEBUG = False
"""
TASKS = """
from django_leasequeue import task

@task
def add(a, b):
    return a + b
"""
PREPARE = """
from django.core.management import call_command
import django_leasequeue
from jobs.tasks import add

print(django_leasequeue.__file__)
call_command("migrate", verbosity=0)
call_command("check", fail_level="WARNING", databases=["default"])
call_command("makemigrations", check=True)
call_command("collectstatic", interactive=False, verbosity=0)
add.dispatch(1, 2)
"""
# Each page of the admin that its first page leads to, and that of the job that has run.
LOOK = """
import re
from django.contrib.auth.models import User
from django.test import Client
from django_leasequeue.models import Job

job = Job.objects.get()
assert (job.status, job.result) == ("succeeded", 3), job.errors
client = Client(raise_request_exception=True)
client.force_login(User.objects.create_superuser("root"))
start = client.get("/admin/").content.decode()
pages = {link for link in re.findall(r'href="(/admin/leasequeue/[^"]*)"', start)}
assert "/admin/leasequeue/job/" in pages, start
for page in sorted({*pages, f"/admin/leasequeue/job/{job.pk}/change/"}):
    answer = client.get(page)
    assert answer.status_code == 200, (page, answer)
    own = re.findall(r'/static/(leasequeue/[^"]+)', answer.content.decode())
    print(page, *own)
"""


@pytest.fixture(scope="module")
def python(built, tmp_path_factory):
    """The Python of an environment with the wheel and what it needs, without our source."""
    folder = tmp_path_factory.mktemp("environment")
    create = [sys.executable, "-m", "venv", "--without-pip", folder]
    subprocess.run(create, check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    # Dependencies are those of the tests. A folder that such a file adds has its own such
    # files ignored, so that no editable installation is among them.
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    wheel = next(built.glob("*.whl"))
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", *install]
    subprocess.run([*pip, "--target", packages, wheel], check=True)
    return folder / "bin" / "python"


@pytest.fixture
def run(python, tmp_path):
    """Run Python in the project's folder; return what it printed."""
    ours = ("PYTHONPATH", "DJANGO_SETTINGS_MODULE", "COVERAGE_PROCESS_CONFIG")
    environment = {name: os.environ[name] for name in os.environ if name not in ours}

    def run(*arguments):
        done = subprocess.run(
            [python, "-W", "error", *arguments],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=4 * DEADLINE,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def test_a_fresh_project(run, python, tmp_path):
    """Migrate, check, collect files, dispatch, run the job by a worker, look at the admin.

    Takes some seconds, since that is three commands, one of them a worker.
    """
    call_command("startproject", "bare", tmp_path)
    with (tmp_path / "bare" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "__init__.py").touch()
    (tmp_path / "jobs" / "tasks.py").write_text(textwrap.dedent(TASKS))
    told = run("manage.py", "shell", "-c", PREPARE)
    where = next(line for line in told.splitlines() if line.endswith("__init__.py"))
    assert Path(where).is_relative_to(python.parent.parent)
    assert not Path(where).is_relative_to(ROOT)
    run("manage.py", "runjobs", "--drain")
    pages = run("manage.py", "shell", "-c", LOOK)
    # A style sheet by the name that tells what is in it.
    assert "leasequeue/admin." in pages


def test_the_example_project(run, tmp_path):
    """Its own tests pass, by the package as it is installed."""
    shutil.copytree(
        ROOT / "example_project",
        tmp_path,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__", "*.sqlite3*"),
    )
    assert "OK" in run("manage.py", "test")
