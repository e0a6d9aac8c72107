"""`manage.py pausequeue` and `resumequeue`: what they do, say and exit with."""

import getpass
import re

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from django_leasequeue import discovery
from django_leasequeue.models import Queue
from tests.factories import JobFactory
from tests.helpers import failing

pytestmark = pytest.mark.django_db(databases=["default", "other"])


@pytest.fixture
def said(capsys):
    """Run a command; returns what it prints, on both streams."""

    def run(*arguments, **options):
        call_command(*arguments, **options)
        return capsys.readouterr()

    return run


def test_they_do_it_once_and_say_so(said):
    JobFactory(queue="mail")
    paused = said("pausequeue", "mail", "--by=ann", "--reason=The server is down.")
    assert paused.out == (
        "Paused queue 'mail'. None of its jobs starts until 'manage.py resumequeue "
        "mail'.\n"
    )
    row = Queue.objects.get()
    assert (row.is_paused, row.paused_by) == (True, "ann")
    again = said("pausequeue", "mail", "--by=bob").out
    assert re.fullmatch(
        r"Queue 'mail' is paused already, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+ by "
        r"ann: The server is down\.\n",
        again,
    )
    assert said("resumequeue", "mail", "--by=cy").out == "Resumed queue 'mail'.\n"
    assert Queue.objects.get().resumed_by == "cy"
    assert said("resumequeue", "mail") == ("Queue 'mail' was not paused.\n", "")
    assert said("pausequeue", "mail", verbosity=0) == ("", "")
    assert Queue.objects.get().is_paused


def test_by_whom_unless_told(said, monkeypatch):
    """The user of the operating system, if it has one."""
    said("pausequeue", "mail")
    assert Queue.objects.get().paused_by == getpass.getuser()
    said("resumequeue", "mail")

    def nobody():
        raise OSError("no such user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    said("pausequeue", "mail")
    assert Queue.objects.get().paused_by == ""
    assert said("pausequeue", "mail").out.rstrip()[-1] == "."


def test_a_name_that_nothing_speaks_for_is_done_and_told(said, settings):
    for command in ("pausequeue", "resumequeue"):
        told = said(command, "mial's")
        assert 'names the queue "mial\'s". Misspelt?' in told.err
        assert "'default'" in told.err
    assert Queue.objects.filter(name="mial's").exists()
    settings.LEASEQUEUE = {"QUEUES": {"video": {"LEASE": 3600}}}
    JobFactory(queue="of a job")
    for name in ("default", "video", "of a job"):
        assert said("pausequeue", name).err == ""


def test_they_work_when_the_code_is_broken(said, monkeypatch):
    """Whether the name is a task's can't be told then, and is not."""

    def broken():
        raise ImportError("as the test asked")

    monkeypatch.setattr(discovery, "autodiscover", broken)
    assert said("pausequeue", "mail").err == ""
    assert Queue.objects.get().is_paused


def test_one_database(said):
    said("pausequeue", "mail", "--database=other")
    assert Queue.objects.using("other").get().is_paused
    assert not Queue.objects.exists()
    said("resumequeue", "mail", "--database=other")
    assert not Queue.objects.using("other").get().is_paused


@pytest.mark.parametrize("command", ["pausequeue", "resumequeue"])
def test_what_can_not_be_done_is_an_error(said, command):
    """The process then exits with 1."""
    for name, why in [("", "empty"), ("*", "is no queue"), ("x" * 101, "100")]:
        with pytest.raises(CommandError, match=why) as caught:
            said(command, name)
        assert caught.value.returncode == 1
    with pytest.raises(CommandError, match="invalid choice: 'none such'"):
        said(command, "mail", "--database=none such")
    lost = failing(OperationalError("gone"), match="leasequeue_queue", times=9)
    with lost, pytest.raises(CommandError, match="'default' refused: gone") as caught:
        said(command, "mail")
    assert caught.value.returncode == 1
