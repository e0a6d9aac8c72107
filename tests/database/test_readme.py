"""The Python of README and docs/tasks.md is run, and does what the text beside it says."""

import sys
from types import ModuleType

import django
import pytest
from django.core import mail
from django.core.management import call_command
from django.db import connections

from django_leasequeue import registry
from django_leasequeue.conf import conf
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import readme

pytestmark = pytest.mark.django_db(transaction=True)
BOTH = readme.TEXT + readme.TASKS_PAGE


@pytest.fixture
def tasks(monkeypatch):
    """The module that both call shop.tasks, with everything that it puts there."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    # Under this name workers would find it, as they would shop.tasks in a shop.
    module = ModuleType("tests.tasks.readme")
    monkeypatch.setitem(sys.modules, "shop.tasks", module)
    for snippet in readme.snippets(readme.TASKS, text=BOTH):
        exec(snippet.code, vars(module))
    return module


@pytest.fixture
def names(tasks):
    """What is there once their other Python has run, beside its tasks."""
    found = dict(vars(tasks))
    for snippet in readme.snippets(readme.SIGN_UP, readme.ANYWHERE, text=BOTH):
        code = snippet.code.replace('"shop.tasks.', '"tests.tasks.readme.')
        exec(code, found)
    return found


@pytest.fixture
def mailer(settings):
    """Keep mail in memory, without Django 6.1's warning that a mailer must be chosen."""
    if django.VERSION >= (6, 1):
        backend = "django.core.mail.backends.locmem.EmailBackend"
        settings.MAILERS = {"default": {"BACKEND": backend}}


def drain():
    try:
        call_command("runjobs", "--in-process", "--drain", verbosity=0)
    except Exception as error:
        return error


def test_what_is_dispatched(names):
    jobs = list(Job.objects.order_by("pk"))
    names_of = [job.task.rpartition(".")[2] for job in jobs]
    assert names_of == ["send_welcome", "index", "fetch_prices"] + ["build_report"] * 7
    welcome, indexed, prices, _, delayed, new_year, first, slow, described, report = (
        jobs
    )
    assert (indexed.dedup_id, indexed.suppressed) == ("index:7", 1)
    assert indexed.status == Status.CANCELLED
    assert (prices.queue, prices.priority, prices.max_attempts) == ("slow", 20, 4)
    assert prices.run_at > prices.created_at
    assert welcome.queue == "mail" and welcome.max_attempts == 5
    assert welcome.dedup_id == f"welcome:{names['user'].pk}"
    assert delayed.priority == 20 and delayed.run_at > delayed.created_at
    assert new_year.run_at == names["new_year"]
    assert (first.queue, slow.queue) == ("reports", "slow")
    assert (first.priority, first.max_attempts) == (-10, 4)
    assert described.meta == {"asked_by": "ann"}
    assert names["first"] == names["again"] == report
    assert report.suppressed == 1
    assert names["outcome"] == "skipped"


def test_what_is_run(names, mailer):
    assert drain() is None
    later = Job.objects.pending()
    assert later.count() == 3  # in a minute, in an hour, and in 2050
    assert [message.to for message in mail.outbox] == [["ann@example.com"]]
    report = names["first"]
    report.refresh_from_db()
    assert report.result == "Report of 2049"


def test_how_a_run_ends(names, mailer):
    charge = names["charge"]
    jobs = {
        answer: charge.dispatch(answer).job
        for answer in ["paid", "busy", "no such card", "closed"]
    }
    renamed = names["rename"].dispatch(names["user"].pk, "anna").job
    assert "1 job failed" in str(drain())
    for job in [*jobs.values(), renamed]:
        job.refresh_from_db()
    ended = {answer: (job.status, job.attempts) for answer, job in jobs.items()}
    assert ended == {
        "paid": (Status.SUCCEEDED, 1),
        "busy": (Status.PENDING, 1),
        "no such card": (Status.FAILED, 1),
        "closed": (Status.PENDING, 0),
    }
    assert jobs["busy"].errors[0]["exception_class"].endswith("Retry")
    assert renamed.status == Status.SUCCEEDED
    names["user"].refresh_from_db()
    assert names["user"].username == "anna"


def test_settings(settings):
    example = readme.TEXT.partition("`LEASEQUEUE = ")[2].partition("`")[0]
    settings.LEASEQUEUE = eval(example)
    assert conf.problems() == []
    assert conf.threads == 8
    assert (conf.lease("video"), conf.lease("mail")) == (3600, 300)


def test_options_for_sqlite(tmp_path):
    (snippet,) = readme.snippets(readme.SETTINGS)
    default = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "db.sqlite3"}
    there = {"DATABASES": {"default": default}}
    exec(snippet.code, there)
    handler = type(connections)(there["DATABASES"])
    try:
        with handler["default"].cursor() as cursor:
            cursor.execute("PRAGMA journal_mode")
            assert cursor.fetchone() == ("wal",)
        assert handler["default"].transaction_mode == "IMMEDIATE"
    finally:
        handler.close_all()
