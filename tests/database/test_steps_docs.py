"""The Python of docs/steps.md is run, on each database, and does what the text beside it says."""

import contextlib
import sys
from types import ModuleType

import pytest
from django.core.management import CommandError, call_command

from django_leasequeue import registry
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from tests import readme
from tests.processes import ROOT
from tests.workers import with_worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)
BLOCKS = readme.blocks("python", (ROOT / "docs/steps.md").read_text())


@pytest.fixture
def module(monkeypatch):
    """Where the snippets are run: a module that workers would find."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    module = ModuleType("tests.tasks.steps")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for code in BLOCKS:
        exec(code, vars(module))
    module.calls = []
    return module


def drain():
    with with_worker_tasks(), contextlib.suppress(CommandError):
        call_command("runjobs", "--in-process", "--drain", verbosity=0)


def test_a_retry_goes_on_where_the_error_was(module):
    calls = module.calls

    def charge(order_id):
        calls.append("charge")
        return f"ch_{order_id}"

    def print_label(order_id):
        calls.append("label")
        if calls.count("label") == 1:
            raise OSError("The printer is out of paper.")
        return "label"

    def send_mail(order_id, charge_id, label):
        calls.append(f"mail {charge_id} {label}")

    module.charge, module.print_label, module.send_mail = charge, print_label, send_mail
    job = module.fulfil.dispatch(7).job
    drain()
    assert calls == ["charge", "label"]
    Job.objects.filter(pk=job.pk).update(run_at=DatabaseNow(-60))
    drain()
    job.refresh_from_db()
    assert calls == ["charge", "label", "label", "mail ch_7 label"]
    assert (job.status, job.result) == ("succeeded", "ch_7")
    steps = job.steps.values_list("name", "result", "attempt", "round")
    assert list(steps) == [
        ("charge", "ch_7", 1, 1),
        ("label", "label", 2, 1),
        ("mail", None, 2, 1),
    ]


def test_coroutines_beside_each_other(module):
    async def fetch(url):
        module.calls.append(url)
        if url == "c" and module.calls.count("c") == 1:
            raise OSError
        return 10

    module.fetch = fetch
    job = module.fetch_all.dispatch(["a", "b", "c"]).job
    drain()
    job.refresh_from_db()
    assert job.steps.count() < 3
    Job.objects.filter(pk=job.pk).update(run_at=DatabaseNow(-60))
    drain()
    job.refresh_from_db()
    assert (job.status, job.result) == ("succeeded", 30)
    assert module.calls.count("c") == 2
    assert job.steps.count() == 3
