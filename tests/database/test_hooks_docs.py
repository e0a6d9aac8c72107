"""The Python of docs/hooks.md is run, on each database, and does what the text beside it says."""

import re
import sys
from types import ModuleType

import django
import pytest
from django.core import mail
from django.core.management import CommandError, call_command

from django_leasequeue import registry
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.signals import job_settled
from django_leasequeue.states import Status
from tests import readme

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def module(monkeypatch, settings):
    """Where the snippets are run: a module that workers would find."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    module = ModuleType("tests.tasks.hooks")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    address = "admin@example.com"
    settings.ADMINS = [address if django.VERSION >= (6, 0) else ("Admin", address)]
    if django.VERSION >= (6, 1):
        backend = "django.core.mail.backends.locmem.EmailBackend"
        settings.MAILERS = {"default": {"BACKEND": backend}}
    yield module
    job_settled.disconnect(module.count_failures)


def drain():
    try:
        call_command("runjobs", "--in-process", "--drain", verbosity=0)
    except CommandError as error:
        return str(error)


def test_the_snippets(module, settings, capsys):
    blocks = readme.blocks("python", readme.HOOKS)
    assert len(blocks) == 3
    for code in blocks:
        exec(code, vars(module))
    names = ("in_language", "timed")
    settings.LEASEQUEUE = {
        "MIDDLEWARE": [f"{module.__name__}.{name}" for name in names],
        "TASK_MODULES": ["tests.worker_tasks"],
    }
    job = module.import_prices.using(meta={"language": "fr"}).dispatch("acme").job
    assert drain() is None
    printed = capsys.readouterr().out
    assert f"Job {job.pk} runs again in 0:00:0" in printed
    took = r"^tests\.tasks\.hooks\.import_prices: \d+\.\d{3} s$"
    assert re.search(took, printed, re.M)
    assert not mail.outbox
    Job.objects.update(max_attempts=2, run_at=DatabaseNow(-60))
    assert drain() == "1 job failed."
    assert Job.objects.get().status == Status.FAILED
    assert "import_prices has failed: acme" in capsys.readouterr().out
    [message] = mail.outbox
    assert message.subject.endswith("tests.tasks.hooks.import_prices has failed")
    assert "ConnectionError: acme" in message.body
