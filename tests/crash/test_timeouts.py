"""Jobs that take longer than their task's timeout, in real children."""

import contextlib
import os
import signal

import pytest

from django_leasequeue.states import Status
from django_leasequeue.worker import timed
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.stop import Level
from django_leasequeue.worker.supervisor import Supervisor
from tests import overrunning, tasks, worker_tasks
from tests.helpers import DEADLINE, eventually, in_thread, worker_environment
from tests.overrunning import SETTINGS
from tests.road import row
from tests.workers import options

# What can't be stopped by an exception.
STUBBORN = [
    overrunning.sleep_in_c,
    overrunning.hold_the_interpreter_in_c,
    overrunning.catch_everything,
    overrunning.wait_for_a_thread,
    overrunning.ignore_the_cancel,
    overrunning.block_the_event_loop,
]


@pytest.fixture(autouse=True)
def known(settings):
    settings.LEASEQUEUE = SETTINGS


@pytest.fixture
def worker(worker_process):
    """Start a real worker that knows the tasks of tests.overrunning."""
    return lambda *arguments, **more: worker_process(
        *arguments, settings=SETTINGS, **more
    )


@pytest.fixture
def supervise(monkeypatch):
    """Run a supervisor of real children in a thread, with almost no grace; a context."""
    monkeypatch.setattr(timed, "GRACE", 0.2)
    monkeypatch.setattr(os, "environ", worker_environment(SETTINGS))

    class Supervised:
        def __init__(self, **given):
            self.progress = Progress()
            self.worker = Supervisor(options(**given), self.progress)

    @contextlib.contextmanager
    def run(**given):
        supervised = Supervised(**given)
        with in_thread(supervised.worker.run) as supervised.thread:
            try:
                yield supervised
            finally:
                supervised.worker.stop.request(Level.AT_ONCE, "the test is done")

    return run


def pid_of(line):
    pid, word = line.split()
    assert word == "started"
    return int(pid)


def assert_timed_out(job, *, attempts=1):
    values = eventually(lambda: (v := row(job))["status"] == Status.FAILED and v)
    assert (values["attempts"], values["recoveries"]) == (attempts, 0)
    classes = [error["exception_class"] for error in values["errors"]]
    assert classes == ["django_leasequeue.exceptions.JobTimeout"] * attempts
    assert "longer than its timeout of 3 s" in values["errors"][-1]["message"]
    assert values["processing_token"] is None
    return values


def assert_done(job):
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)


@pytest.mark.parametrize("task", [overrunning.loop, overrunning.wait])
def test_case_092_what_runs_python_is_stopped_and_its_child_goes_on(
    worker, announcement, task
):
    job = task.dispatch(announcement.path).job
    # A busy machine may take long to bring the exception to it.
    patient = {"LEASEQUEUE_TEST_GRACE": f"{2 * DEADLINE}"}
    process = worker("--threads=1", "--async-tasks=1", env=patient)
    child = pid_of(announcement.wait())
    values = assert_timed_out(job)
    assert "tests/overrunning.py" in values["errors"][0]["traceback"]
    assert "killed" not in values["errors"][0]["message"]
    after = tasks.announce_then_wait.dispatch(announcement.path).job
    assert int(announcement.wait()) == child
    announcement.release()
    assert_done(after)
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert "is killed" not in process.output


@pytest.mark.parametrize("task", STUBBORN, ids=lambda task: task.__name__)
def test_case_092_what_goes_on_is_killed_and_its_slot_is_free_again(
    supervise, announcement, task
):
    job = task.dispatch(announcement.path).job
    with supervise(threads=1, async_tasks=1) as supervised:
        child = pid_of(announcement.wait())
        values = assert_timed_out(job)
        assert "its process was killed after" in values["errors"][0]["message"]
        after = tasks.announce_then_wait.dispatch(announcement.path).job
        assert int(announcement.wait()) != child
        announcement.release()
        assert_done(after)
        eventually(lambda: supervised.progress.counts == {"failed": 1, "succeeded": 1})
    assert row(job)["claims"] == 1


def test_attempts_that_are_killed_are_retried_while_some_are_left(
    supervise, announcement
):
    job = overrunning.sleep_twice.dispatch(announcement.path).job
    with supervise(threads=1) as supervised:
        assert pid_of(announcement.wait()) != pid_of(announcement.wait())
        assert_timed_out(job, attempts=2)
        eventually(
            lambda: supervised.progress.counts == {"to be retried": 1, "failed": 1}
        )


def test_on_timeout_fail_leaves_no_attempt(supervise, announcement):
    job = overrunning.sleep_once.dispatch(announcement.path).job
    with supervise(threads=1):
        assert_timed_out(job)
    assert row(job)["claims"] == 1


def test_siblings_of_a_killed_child_run_again_uncounted(worker, announcement):
    """In the same child, a thread and a coroutine; and with the grace as it is."""
    siblings = [
        tasks.announce_then_wait.dispatch(announcement.path, "sibling").job,
        worker_tasks.say_then_wait.dispatch(announcement.path, "sibling").job,
    ]
    process = worker("--threads=2", "--async-tasks=2", "--shutdown-timeout=0")
    before = {announcement.wait() for _ in siblings}
    assert len(before) == 1
    job = overrunning.sleep_in_c.dispatch(announcement.path).job
    pid_of(announcement.wait())
    # None of them has done anything wrong, so they are back at once.
    after = {announcement.wait() for _ in siblings}
    assert len(after) == 1
    assert after != before
    assert_timed_out(job)
    for sibling in siblings:
        values = row(sibling)
        assert (values["status"], values["claims"]) == (Status.RUNNING, 2)
        assert (values["attempts"], values["recoveries"]) == (0, 0)
        assert values["errors"] == []
        told = [event.data.get("why") for event in sibling.timeline()]
        assert "neighbour_timeout" in told
    announcement.release()
    assert_done(siblings[0])
    assert row(siblings[0])["attempts"] == 1
    assert f"Given back, to be run again: jobs {siblings[0].id}" in process.output
    assert "a job beside them did not stop at its timeout" in process.output
    assert "was lost" not in process.output


def test_other_children_notice_nothing(supervise, announcement):
    job = overrunning.sleep_in_c.dispatch(announcement.path).job
    with supervise(processes=2, threads=1):
        pid_of(announcement.wait())
        other = tasks.announce_then_wait.dispatch(announcement.path).job
        announcement.wait()
        assert_timed_out(job)
        assert (row(other)["status"], row(other)["claims"]) == (Status.RUNNING, 1)
        announcement.release()
        assert_done(other)


def test_a_drain_fails_with_a_job_that_was_killed(worker, announcement):
    overrunning.sleep_in_c.dispatch(announcement.path)
    good = tasks.add.dispatch(1, 1).job
    process = worker("--drain", "--threads=1")
    assert process.wait() == 1
    assert row(good)["status"] == Status.SUCCEEDED
    assert "Drained: 1 succeeded, 1 failed." in process.output


def test_a_child_calls_what_follows_a_run_that_was_killed_with_another(
    supervise, announcement
):
    """The supervisor stores its outcome; a drain does not end before the call."""
    overrunning.sleep_twice_and_tell.dispatch(announcement.path)
    with supervise(threads=1, drain=True) as supervised:
        supervised.thread.result()
    said = [announcement.wait().split() for _ in range(4)]
    assert [word for _, word in said].count("started") == 2
    told = [status for status, word in said if word == "JobTimeout"]
    # By the first call the second run may have begun.
    assert told[0] in {Status.PENDING, Status.RUNNING}
    assert told[1:] == [Status.FAILED]
    assert announcement.is_silent()


def test_stop_after_counts_a_job_that_was_killed(supervise, announcement):
    overrunning.sleep_in_c.dispatch(announcement.path)
    with supervise(threads=1, stop_after=1) as supervised:
        later = tasks.add.dispatch(1, 1).job
        supervised.thread.result()
    assert supervised.progress.counts == {"failed": 1}
    assert row(later)["status"] == Status.PENDING
