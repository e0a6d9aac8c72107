"""`manage.py prunejobs`: what it says, what it removes, and when it ends."""

import signal

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from django_leasequeue import discovery
from django_leasequeue.db import DatabaseNow, removal
from django_leasequeue.models import Job
from tests.factories import JobFactory
from tests.helpers import failing

pytestmark = pytest.mark.django_db(databases=["default", "other"])
DAY = 24 * 3600


@pytest.fixture
def said(capsys):
    """Run the command and return what it prints."""

    def run(*arguments, **options):
        call_command("prunejobs", *arguments, **options)
        return capsys.readouterr().out

    return run


def old(status, count, **fields):
    for _ in range(count):
        JobFactory(**{status: True}, finished_at=DatabaseNow(-40 * DAY), **fields)


def test_it_says_how_many_of_which_status(said):
    old("succeeded", 2)
    old("failed", 1)
    JobFactory(failed=True)
    assert said("--dry-run") == "Would remove 3 jobs: 1 failed, 2 succeeded.\n"
    assert Job.objects.count() == 4
    assert said() == "Removed 3 jobs: 1 failed, 2 succeeded.\n"
    assert Job.objects.count() == 1
    assert said() == "Removed 0 jobs.\n"
    assert said("--dry-run") == "Would remove 0 jobs.\n"
    old("cancelled", 1)
    assert said(verbosity=0) == ""
    assert Job.objects.count() == 1


def test_of_one_queue_and_database(said):
    old("succeeded", 1, queue="mail")
    old("succeeded", 1)
    old("succeeded", 1, using="other", queue="mail")
    assert said("--queue=mail") == "Removed 1 job: 1 succeeded.\n"
    assert Job.objects.count() == Job.objects.using("other").count() == 1
    assert said("--database=other") == "Removed 1 job: 1 succeeded.\n"
    assert (Job.objects.count(), Job.objects.using("other").count()) == (1, 0)


def test_a_queue_that_is_nobodys_is_asked_about(said, settings):
    with pytest.raises(CommandError, match=r"names the queue 'mial' .* Misspelt"):
        said("--queue=mial")
    settings.LEASEQUEUE = {"QUEUES": {"mial": {}}}
    assert said("--queue=mial") == "Removed 0 jobs.\n"
    JobFactory(queue="waiting")
    assert said("--queue=waiting") == "Removed 0 jobs.\n"


def test_tasks_whose_rules_are_not_known_lose_nothing(said, monkeypatch):
    """A module that can't be imported may hold a task that keeps its jobs."""

    def broken():
        raise ImportError("as the test asked")

    monkeypatch.setattr(discovery, "autodiscover", broken)
    old("succeeded", 1)
    with pytest.raises(ImportError):
        said()
    assert Job.objects.count() == 1


def test_156_a_signal_ends_it_between_two_steps(said, monkeypatch):
    """Case 156: what has been removed by then is removed, and the exit code is 0."""
    monkeypatch.setattr("django_leasequeue.transitions.prune.ROWS", 2)
    old("succeeded", 5)
    real = removal.delete

    def delete(rows):
        signal.raise_signal(signal.SIGTERM)
        return real(rows)

    monkeypatch.setattr(removal, "delete", delete)
    usual = signal.getsignal(signal.SIGTERM)
    assert said() == "Removed 2 jobs: 2 succeeded.\nEnded early by SIGTERM.\n"
    assert Job.objects.count() == 3
    assert signal.getsignal(signal.SIGTERM) is usual


def test_a_refusal_of_the_database_is_told_in_a_sentence(said):
    lost = failing(OperationalError("gone"), match="leasequeue_job", times=9)
    with lost, pytest.raises(CommandError, match="'default' refused: gone"):
        said()


def test_wrong_options():
    with pytest.raises(CommandError, match="invalid choice: 'none such'"):
        call_command("prunejobs", "--database=none such")
