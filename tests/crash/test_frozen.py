"""Real workers that sleep past their leases, and whose clocks are wrong."""

import os
import signal

import pytest

from django_leasequeue.models import Job, Worker
from django_leasequeue.states import Status
from tests import tasks, worker_tasks
from tests.helpers import eventually
from tests.processes import freeze, thaw
from tests.road import row
from tests.workers import SETTINGS, end_leases, with_worker_tasks

# Renewed at every third of it.
SHORT = {**SETTINGS, "LEASE": 6, "SAFETY_BUFFER": 1}


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def test_048_050_a_sleeper_changes_nothing_and_takes_new_work(
    worker_process, announcement
):
    """Stopped in mid-job past its lease; another has run the job by the time it goes on."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    sleeper = worker_process(settings=SETTINGS)
    announcement.wait()
    freeze(*sleeper.family())
    end_leases(Job.objects.all())
    other = worker_process("--drain", settings=SETTINGS)
    announcement.wait()
    announcement.release()
    assert other.wait() == 0
    before = row(job)
    assert (before["status"], before["recoveries"]) == (Status.SUCCEEDED, 1)
    thaw(*sleeper.family())
    announcement.release()
    sleeper.wait_for("its outcome is discarded")
    assert row(job) == before
    # Both workers are named, and what follows.
    [line] = [text for text in sleeper.output.splitlines() if "is discarded" in text]
    assert before["worker"] in line
    assert before["worker_ids"].split()[0] in line
    later = tasks.record_effect.dispatch("later").job
    eventually(lambda: row(later)["status"] == Status.SUCCEEDED)
    sleeper.send(signal.SIGTERM)
    assert sleeper.wait() == 0


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
def test_048_a_sleeper_is_told_at_its_next_beat(worker_process, announcement, mode):
    """While the other still runs the job, and long before its own clock would say so."""
    other = worker_process("--queues=other", settings={**SETTINGS, "LEASE": 600})
    other.wait_for("is ready as worker")
    job = worker_tasks.wait_until_lost.dispatch(announcement.path).job
    sleeper = worker_process(mode, settings={**SHORT, "LEASE": 30})
    first = announcement.wait().split()[0]
    freeze(*sleeper.family())
    # So that the other, which need not start first, takes it at once.
    Job.objects.filter(pk=job.pk).update(queue="other")
    end_leases(Job.objects.all())
    assert announcement.wait().split()[0] != first
    thaw(*sleeper.family())
    assert announcement.wait() == "lost"
    sleeper.wait_for("is lost: the row is in the name of")
    sleeper.wait_for("its outcome is discarded")
    [line] = [text for text in sleeper.output.splitlines() if "is discarded" in text]
    names = row(job)["worker_ids"].split()
    assert len(names) == 2
    assert all(name in line for name in names)
    assert row(job)["claims"] == 2
    Job.objects.filter(pk=job.pk).delete()
    for process in (sleeper, other):
        process.kill()


def test_a_child_that_sleeps_alone_loses_nothing(worker_process, announcement):
    """Its supervisor renews for it until it is seen to be stopped; here it comes back first."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker_process(settings=SETTINGS)
    child = int(announcement.wait())
    os.kill(child, signal.SIGSTOP)
    announcement.release()
    os.kill(child, signal.SIGCONT)
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert (row(job)["claims"], row(job)["recoveries"]) == (1, 0)
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_nothing_is_renewed_for_a_child_that_is_stopped(worker_process, announcement):
    """Another worker runs its job when the lease ends, though its supervisor is well."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    # One thread, or it might take the job again itself should its lease end before the stop.
    process = worker_process("--processes=1", "--threads=1", settings=SHORT)
    child = int(announcement.wait())
    freeze(child)
    process.wait_for("was stopped by a signal")
    eventually(lambda: Job.objects.expired().exists())
    other = worker_process("--drain", settings=SETTINGS)
    announcement.wait()
    announcement.release()
    assert other.wait() == 0
    before = row(job)
    assert (before["status"], before["recoveries"]) == (Status.SUCCEEDED, 1)
    thaw(child)
    announcement.release()
    process.wait_for("its outcome is discarded")
    process.wait_for("goes on")
    assert row(job) == before
    process.send(signal.SIGTERM)
    assert process.wait() == 0


@pytest.mark.parametrize("step", ["3600", "back and forth"])
def test_047_a_clock_that_is_wrong_changes_nothing(worker_process, announcement, step):
    """No live lease is taken for over and no orphan is overlooked: see apps.step_clock."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    healthy = worker_process(settings=SETTINGS)
    announcement.wait()
    wrong = {"LEASEQUEUE_TEST_CLOCK": step}
    other = tasks.record_effect.dispatch("other").job
    assert worker_process("--drain", settings=SETTINGS, env=wrong).wait() == 0
    assert (row(job)["status"], row(job)["claims"]) == (Status.RUNNING, 1)
    assert row(other)["status"] == Status.SUCCEEDED
    freeze(*healthy.family())
    end_leases(Job.objects.all())
    Worker.objects.all().delete()  # case 045: nothing is looked up through it
    late = worker_process("--drain", settings=SETTINGS, env=wrong)
    announcement.wait()
    announcement.release()
    assert late.wait() == 0
    assert (row(job)["status"], row(job)["recoveries"]) == (Status.SUCCEEDED, 1)
