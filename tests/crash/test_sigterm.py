"""Real workers that are told to stop."""

import ctypes
import os
import re
import signal
import time
from pathlib import Path

import pytest

from django_leasequeue.states import Status
from tests import tasks, worker_tasks
from tests.helpers import eventually
from tests.road import row
from tests.workers import statuses, with_worker_tasks

# Longer than any test: a worker that ends before has not waited for it.
PATIENT = "--shutdown-timeout=600"
HASTY = "--shutdown-timeout=0.2"


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def assert_given_back(job):
    values = row(job)
    assert values["status"] == Status.PENDING
    assert (values["attempts"], values["recoveries"], values["errors"]) == (0, 0, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_148_a_running_job_finishes_and_no_other_starts(worker, announcement, number):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker(PATIENT, "--threads=1")
    announcement.wait()
    process.send(number)
    # The supervisor says that it stops before its child has heard of it.
    process.wait_for(f"takes no more jobs: {number.name}.")
    later = tasks.add.dispatch(1, 1).job
    announcement.release()
    assert process.wait() == 0
    assert row(job)["status"] == Status.SUCCEEDED
    # A child that claimed it before the word reached it has given it back.
    assert row(later)["status"] == Status.PENDING
    assert row(later)["attempts"] == 0
    assert f"Job {later.pk} (tests.tasks.add) starts" not in process.output


def test_148_an_idle_worker_stops(worker):
    process = worker(PATIENT, "--processes=2")
    eventually(lambda: process.output.count("is ready as worker") == 2)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert "was lost" not in process.output


def waits(pid):
    """Whether the main thread of a process has nothing to do: fifty looks see it at one rest.

    Were it still at work, the test would prove less, but not fail.
    """
    status = Path(f"/proc/{pid}/task/{pid}/status")
    looks = set()
    for _ in range(50):
        time.sleep(0.02)
        looks.add(re.search(r"voluntary_ctxt_switches:\s+\d+", status.read_text())[0])
    return len(looks) == 1


def test_a_signal_that_does_not_interrupt_the_wait_is_heard(worker):
    """As one that comes just before it: here, one that another thread is given."""
    process = worker(PATIENT)
    process.wait_for("is ready as worker")
    eventually(lambda: waits(process.pid))
    threads = {int(name) for name in os.listdir(f"/proc/{process.pid}/task")}
    other = min(threads - {process.pid})
    assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGTERM) == 0
    process.wait_for("The worker stops: SIGTERM.")
    assert process.wait() == 0


def test_148_a_worker_stops_whose_children_have_not_started_yet(worker):
    process = worker(PATIENT)
    process.wait_for("The worker starts")
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_a_terminals_ctrl_c_reaches_the_children_too_and_kills_none(
    worker, announcement
):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker(PATIENT)
    announcement.wait()
    os.killpg(process.pid, signal.SIGINT)
    process.wait_for("The worker stops: SIGINT.")
    announcement.release()
    assert process.wait() == 0
    assert row(job)["status"] == Status.SUCCEEDED
    assert "was lost" not in process.output


def test_a_service_manager_may_send_sigterm_to_all_at_once(worker, announcement):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker(PATIENT)
    announcement.wait()
    os.killpg(process.pid, signal.SIGTERM)
    process.wait_for("The worker stops: SIGTERM.")
    announcement.release()
    assert process.wait() == 0
    assert row(job)["status"] == Status.SUCCEEDED


def test_the_task_is_told_that_the_worker_stops(worker, announcement):
    job = worker_tasks.wait_for_the_stop.dispatch(announcement.path).job
    process = worker(PATIENT)
    announcement.wait()
    process.send(signal.SIGTERM)
    assert announcement.wait() == "stopping"
    assert process.wait() == 0
    assert row(job)["result"] == "told"


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
@pytest.mark.parametrize("task", [tasks.announce_then_wait, worker_tasks.say_then_wait])
def test_what_runs_past_the_timeout_is_given_back_uncounted(
    worker, announcement, task, mode
):
    job = task.dispatch(announcement.path).job
    process = worker(HASTY, mode)
    announcement.wait()
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert_given_back(job)
    told = [(event.kind, event.data.get("why")) for event in job.timeline()]
    assert told[1:] == [("claimed", None), ("released", "worker_stops")]


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
def test_jobs_that_are_to_be_retried_are_left_as_they_are(worker, announcement, mode):
    """Those that wait for it keep their time; a retry that runs goes back uncounted."""
    waits = worker_tasks.wait_in_retry.dispatch(announcement.path, 3600).job
    runs = worker_tasks.wait_in_retry.dispatch(announcement.path).job
    process = worker(HASTY, mode)
    announcement.wait()
    eventually(lambda: row(waits)["attempts"] == 1)
    before, running = row(waits), row(runs)
    assert (running["status"], running["attempts"]) == (Status.RUNNING, 1)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert row(waits) == before
    values = row(runs)
    assert (values["status"], values["attempts"]) == (Status.PENDING, 1)
    assert (values["recoveries"], values["errors"]) == (0, running["errors"])


def test_an_outcome_that_comes_during_the_stop_is_stored(worker, announcement):
    kept = tasks.announce_then_wait.dispatch(announcement.path, "kept").job
    process = worker(PATIENT, "--threads=2")
    announcement.wait()
    other = tasks.announce_then_wait.dispatch(announcement.path, "other").job
    announcement.wait()
    process.send(signal.SIGTERM)
    # Two signals that are pending at one time are one.
    process.wait_for("The worker stops")
    announcement.release()
    eventually(lambda: statuses()[Status.SUCCEEDED] == 1)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert {row(kept)["status"], row(other)["status"]} == {"succeeded", "pending"}


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
@pytest.mark.parametrize("task", [tasks.announce_then_wait, worker_tasks.say_then_wait])
def test_149_a_second_signal_gives_leases_up_at_once(worker, announcement, task, mode):
    job = task.dispatch(announcement.path).job
    process = worker(PATIENT, mode)
    announcement.wait()
    process.send(signal.SIGINT)
    process.wait_for("takes no more jobs: SIGINT.")
    process.send(signal.SIGINT)
    assert process.wait() == 0
    assert_given_back(job)


def test_a_job_that_holds_the_interpreter_can_not_hold_up_the_stop(
    worker, announcement
):
    job = worker_tasks.hold_the_interpreter.dispatch(announcement.path).job
    process = worker(PATIENT, "--threads=1")
    announcement.wait()
    process.send(signal.SIGTERM)
    process.wait_for("The worker stops: SIGTERM.")
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert "did not leave in time and is killed" in process.output
    assert_given_back(job)


def test_sigterm_to_a_child_alone_lets_it_finish_and_another_take_its_seat(
    worker, announcement
):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker(PATIENT, "--threads=1")
    child = int(announcement.wait())
    os.kill(child, signal.SIGTERM)
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    second = tasks.announce_then_wait.dispatch(announcement.path).job
    assert int(announcement.wait()) != child
    announcement.release()
    eventually(lambda: row(second)["status"] == Status.SUCCEEDED)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert "was lost" not in process.output


def test_in_process_a_running_job_finishes(worker, announcement):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker(PATIENT, "--in-process")
    pid = announcement.wait()
    assert int(pid) == process.pid
    process.send(signal.SIGTERM)
    announcement.release()
    assert process.wait() == 0
    assert row(job)["status"] == Status.SUCCEEDED
