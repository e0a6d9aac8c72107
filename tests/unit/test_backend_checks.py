"""System checks of TASKS, and Djangos without it."""

import subprocess
import sys

import django
import pytest
from django.core import checks as django_checks

from tests.processes import ROOT

OURS = "django_leasequeue.backend.LeaseQueueBackend"
NEEDS_TASKS = pytest.mark.skipif(django.VERSION < (6, 0), reason="came with Django 6.0")


@pytest.fixture
def found(settings):
    """Check a backend: `found(QUEUES=[...], OPTIONS={...})` returns its messages."""

    def check(**entry):
        from django.tasks import task_backends

        settings.TASKS = {"jobs": {"BACKEND": OURS, **entry}}
        return task_backends["jobs"].check()

    return check


def told(messages):
    return [(one.id.removeprefix("leasequeue."), one.msg, one.hint) for one in messages]


@NEEDS_TASKS
def test_nothing_is_wrong(found):
    options = {"database": "other", "max_attempts": 3, "timeout": 60}
    assert found() == found(QUEUES=[]) == []
    assert found(QUEUES=["mail", "default"], OPTIONS=options) == []


@NEEDS_TASKS
def test_e401_the_app_is_missing(found, settings):
    settings.INSTALLED_APPS = ["django.contrib.contenttypes"]
    [(id, message, hint)] = told(found())
    assert id == "E401"
    assert "'django_leasequeue'" in message and "INSTALLED_APPS" in hint


@NEEDS_TASKS
def test_e402_options_that_do_not_exist(found):
    [(id, message, hint), (_, _, other)] = told(
        found(OPTIONS={"max_attempt": 3, "zzz": 1})
    )
    assert (id, hint) == ("E402", "Did you mean 'max_attempts'?")
    assert message == "TASKS['jobs']['OPTIONS'] has the unknown key 'max_attempt'."
    assert other.startswith("There are atomic, ") and "database" in other
    assert told(found(OPTIONS=[]))[0][0] == "E402"


@NEEDS_TASKS
def test_e403_options_that_cant_be(found):
    messages = told(found(OPTIONS={"max_attempts": 0, "retention": {"lost": 1}}))
    assert [id for id, *_ in messages] == ["E403"] * 2
    assert any("['max_attempts'] can't be: " in message for _, message, _ in messages)


@NEEDS_TASKS
@pytest.mark.parametrize("name", ["", "*", "q" * 101, "a\0b", 5])
def test_e404_names_that_no_queue_can_have(found, name):
    [(id, message, _)] = told(found(QUEUES=["mail", name]))
    assert id == "E404"
    assert repr(name) in message


@NEEDS_TASKS
def test_e404_queues_that_are_text(found):
    assert [id for id, *_ in told(found(QUEUES="mail"))] == ["E404"]


@NEEDS_TASKS
def test_e405_databases_without_jobs(found, settings):
    [(id, message, hint)] = told(found(OPTIONS={"database": "defualt"}))
    assert (id, hint) == ("E405", "Did you mean 'default'?")
    assert "'defualt'" in message
    settings.DATABASE_ROUTERS = ["tests.unit.test_backend_checks.NoJobsInOther"]
    [(id, message, _)] = told(found(OPTIONS={"database": "other"}))
    assert id == "E405" and "DATABASE_ROUTERS" in message


class NoJobsInOther:
    def allow_migrate(self, db, app_label, **hints):
        return not (db == "other" and app_label == "leasequeue")


@NEEDS_TASKS
def test_they_are_run_by_manage_check(settings):
    """The app sees to it, since Django checks no backends that nobody has imported."""
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"database": "nowhere"}}}
    found = django_checks.registry.registry.get_checks()
    [check] = [one for one in found if one.__module__ == "django.tasks.checks"]
    assert [message.id for message in check()] == ["leasequeue.E405"]


@pytest.mark.skipif(django.VERSION >= (6, 0), reason="has django.tasks")
def test_a_django_without_tasks():
    """The backend says why it can't be; nothing else minds."""
    with pytest.raises(ImportError, match=r"needs Django 6\.0.*this is Django 5\.2"):
        import django_leasequeue.backend  # noqa: F401


PROGRAM = """
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["django_leasequeue"], TASKS={})
django.setup()
import sys
import django_leasequeue.worker.executor
print("django_leasequeue.backend" in sys.modules)
"""


def test_projects_without_tasks_do_not_load_it():
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        PROGRAM.replace("{}", "{'default': {}}"),
    ]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.stdout.strip() == "False", process.stderr
