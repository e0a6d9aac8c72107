"""docs/coming_from.md: this package's half of each pair does what the other half did."""

import re
from datetime import timedelta

import pytest
from django.conf import settings

from django_leasequeue import registry
from django_leasequeue.testing import run_jobs
from tests import readme
from tests.processes import ROOT

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(
        settings.DATABASE != "sqlite", reason="Meets no more than rows that are stored"
    ),
]
TEXT = (ROOT / "docs/coming_from.md").read_text()
PAIRS = {
    title: readme.blocks("python", section)
    for title, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
}


@pytest.fixture
def after(monkeypatch):
    """Run what stands after the move of one queue; return what it has called."""
    monkeypatch.setattr(registry, "_tasks", {})

    def run(title):
        called = []
        names = ["log_retry", "mail_invoice", "mail_reminders", "tell"]
        found = {"__name__": "tests.tasks", "timedelta": timedelta}
        for name in names:
            found[name] = lambda *args, name=name: called.append((name, *args))
        before, code = PAIRS[title]
        assert before.startswith("# before\n") and code.startswith("# after\n")
        exec(code, found)
        return found, called

    return run


def test_every_block_is_python():
    blocks = [block for blocks in PAIRS.values() for block in blocks]
    assert len(blocks) > 8
    for block in blocks:
        compile(block, "docs/coming_from.md", "exec")
        assert block.startswith(("# before", "# after"))


@pytest.mark.parametrize("title", ["Celery", "RQ and django-rq"])
def test_two_invoices(after, title):
    _, called = after(title)
    first, second = run_jobs(through=timedelta(minutes=1))
    assert called == [("mail_invoice", 7)] * 2
    assert {first.job.max_attempts, second.job.max_attempts} == {4}
    assert second.job.queue == "mail"
    assert second.job.run_at - second.job.created_at == timedelta(minutes=1)


def test_a_retry(after):
    found, called = after("Celery")

    def fails_once(order_id):
        called.append(("tried", order_id))
        if len(called) == 1:
            raise OSError

    found["mail_invoice"] = fails_once
    run_jobs(through=timedelta(seconds=30))
    assert called == [("tried", 7), ("log_retry", 7), ("tried", 7)]


def test_a_hook_and_a_schedule(after):
    found, called = after("django-q2")
    [run] = run_jobs()
    assert [name for name, *_ in called] == ["mail_invoice", "tell"]
    assert run.job.group == "invoices"
    [schedule] = found["send_reminders"].options.schedule
    assert schedule.text == "0 8 * * *"


def test_settings_of_the_backend():
    _, after, *_ = PAIRS["django-tasks-db"]
    exec(after, found := {})
    [backend] = found["TASKS"].values()
    assert backend["BACKEND"] == "django_leasequeue.backend.LeaseQueueBackend"
