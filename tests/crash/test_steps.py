"""Real workers that are killed, stopped or cut off between and inside of steps."""

import os
import signal

import pytest
from django.db import connection

from django_leasequeue.models import Job, Step
from django_leasequeue.states import Status
from tests import worker_tasks
from tests.helpers import eventually
from tests.processes import freeze, thaw
from tests.road import row
from tests.workers import SETTINGS, end_leases, with_worker_tasks

KINDS = ["take_two_steps", "atake_two_steps"]


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def dispatch(announcement, kind="take_two_steps"):
    return getattr(worker_tasks, kind).dispatch(announcement.path).job


def heard(announcement, word):
    """Wait for that word and no other; return the pid of the process that said it."""
    pid, said = announcement.wait().split()
    assert said == word
    return int(pid)


def names():
    return sorted(Step.objects.values_list("name", flat=True))


def is_done(job):
    return row(job)["status"] == Status.SUCCEEDED


def stop(process):
    process.send(signal.SIGTERM)
    assert process.wait() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_killed_between_two_steps_resumes_at_the_second(
    worker, announcement, kind
):
    job = dispatch(announcement, kind)
    process = worker("--threads=1")
    killed = heard(announcement, "first")
    announcement.release()
    heard(announcement, "between")
    assert names() == ["first"]
    os.kill(killed, signal.SIGKILL)
    # The first is not called again.
    other = heard(announcement, "between")
    assert other != killed
    assert row(job)["recoveries"] == 1
    announcement.release()
    heard(announcement, "second")
    announcement.release()
    eventually(lambda: is_done(job))
    values = row(job)
    assert values["result"] == [["first", killed], ["second", other]]
    # What it recorded after the death ended the suspicion.
    assert (values["recoveries"], values["suspect"]) == (0, 0)
    assert (values["attempts"], values["claims"]) == (1, 2)
    assert announcement.is_silent()
    stop(process)


def test_when_all_are_killed_the_next_worker_resumes_at_the_second(
    worker, announcement
):
    job = dispatch(announcement)
    process = worker("--threads=1")
    killed = heard(announcement, "first")
    announcement.release()
    heard(announcement, "between")
    process.kill()
    assert end_leases(Job.objects.all()) == 1
    announcement.release(2)
    assert worker("--drain").wait() == 0
    other = heard(announcement, "between")
    assert heard(announcement, "second") == other
    assert row(job)["result"] == [["first", killed], ["second", other]]
    assert announcement.is_silent()


def test_a_step_that_was_cut_short_runs_again(worker, announcement):
    """What it did is not recorded, so a step itself may run more than once."""
    job = dispatch(announcement)
    process = worker("--threads=1")
    killed = heard(announcement, "first")
    os.kill(killed, signal.SIGKILL)
    other = heard(announcement, "first")
    announcement.release(3)
    heard(announcement, "between")
    heard(announcement, "second")
    eventually(lambda: is_done(job))
    assert row(job)["result"] == [["first", other], ["second", other]]
    stop(process)


def test_a_sleeper_records_no_step(worker, announcement):
    """Stopped inside of a step past its lease, while another run records the same step."""
    job = dispatch(announcement)
    sleeper = worker("--threads=1")
    slow = heard(announcement, "first")
    freeze(*sleeper.family())
    end_leases(Job.objects.all())
    process = worker("--threads=1")
    quick = heard(announcement, "first")
    announcement.release()
    heard(announcement, "between")
    before = Step.objects.values().get()
    assert before["result"] == ["first", quick]
    # The sleeper's own step ends now, and can't be recorded; the other goes on to its end.
    thaw(*sleeper.family())
    announcement.release(3)
    sleeper.wait_for("is discarded")
    eventually(lambda: is_done(job))
    assert Step.objects.filter(pk=before["id"]).values().get() == before
    assert names() == ["first", "second"]
    assert row(job)["result"] == [["first", quick], ["second", quick]]
    assert slow != quick
    stop(process)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_recorded_once_the_database_is_back(
    worker_process, own_server, announcement, kind
):
    server, environment = own_server
    job = dispatch(announcement, kind)
    process = worker_process("--threads=1", settings=SETTINGS, env=environment)
    pid = heard(announcement, "first")
    connection.close()
    server.stop_process()
    announcement.release()
    process.wait_for("Cannot store the steps of jobs now")
    assert announcement.is_silent()
    server.revive()
    heard(announcement, "between")
    assert names() == ["first"]
    announcement.release(2)
    eventually(lambda: is_done(job))
    assert row(job)["result"] == [["first", pid], ["second", pid]]
    assert row(job)["claims"] == 1
    stop(process)
