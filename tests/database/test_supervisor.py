"""worker.supervisor: leases of children are renewed, and children replaced."""

import gc
import os
import signal
import threading
import uuid
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError
from django.test import override_settings

from django_leasequeue.conf import conf
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled
from django_leasequeue.states import Status
from django_leasequeue.worker import crew, lease_table
from django_leasequeue.worker import supervisor as supervisor_module
from django_leasequeue.worker.children import ChildProcess
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.killed import Killed
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.stop import Level
from django_leasequeue.worker.supervisor import Supervisor
from tests import tasks, worker_tasks
from tests.helpers import eventually, in_thread, worker_environment
from tests.road import row
from tests.workers import SETTINGS, options, statuses, with_worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)

# Seconds of the leases of `brief`: a busy machine may stand still for ten.
LEASE = 12


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def stop(process):
    process.send(signal.SIGTERM)
    assert process.wait() == 0


@pytest.fixture
def brief(monkeypatch, settings):
    """Leases of some seconds, which a supervisor in this process renews ten times in each.

    So that it takes a stall of nearly all of one to lose it.
    """
    settings.LEASEQUEUE = {**SETTINGS, "LEASE": LEASE, "SAFETY_BUFFER": 0.5}
    monkeypatch.setattr(os, "environ", worker_environment(settings.LEASEQUEUE))
    monkeypatch.setattr(lease_table, "_PART", 10)


def outlives_its_lease(job):
    """Wait until a job has run for longer than one lease, and is on another."""
    first = row(job)["processing_until"]
    eventually(lambda: row(job)["processing_until"] > first + timedelta(seconds=LEASE))


def test_054_067_a_job_may_take_longer_than_its_lease(brief, announcement):
    """It has no time limit; another worker, which looks for lost jobs, leaves it alone."""
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    worker = Supervisor(options(), Progress())
    with in_thread(worker.run):
        announcement.wait()
        outlives_its_lease(job)
        InProcess(options(drain=True), Progress()).run()
        assert row(job)["status"] == Status.RUNNING
        announcement.release()
        eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
        worker.stop.request(Level.GRACEFUL, "the test is done")
    assert (row(job)["claims"], row(job)["recoveries"]) == (1, 0)


def test_055_a_job_that_holds_the_interpreter_keeps_its_lease(brief, announcement):
    job = worker_tasks.hold_the_interpreter.dispatch(announcement.path).job
    worker = Supervisor(options(threads=1, shutdown_timeout=0), Progress())
    with in_thread(worker.run):
        try:
            announcement.wait()
            outlives_its_lease(job)
            assert row(job)["claims"] == 1
        finally:
            worker.stop.request(Level.GRACEFUL, "the test is done")
            worker.stop.request(Level.AT_ONCE, "the job would go on for ever")


def test_a_lost_lease_is_told_to_the_task_in_the_child(worker_process, announcement):
    job = worker_tasks.wait_until_lost.dispatch(announcement.path).job
    # Else a machine that stands still would end it first, and the worker run the job again.
    settings = {**SETTINGS, "LEASE": 30, "SAFETY_BUFFER": 1}
    process = worker_process(settings=settings)
    announcement.wait()
    Job.objects.filter(pk=job.pk).update(
        processing_token=uuid.uuid4(), processing_until=DatabaseNow(3600)
    )
    assert announcement.wait() == "lost"
    process.wait_for("its outcome is discarded")
    stop(process)
    assert (row(job)["status"], row(job)["attempts"]) == (Status.RUNNING, 0)


@pytest.fixture
def embedded(monkeypatch):
    """The environment from which children of this process find its databases."""
    monkeypatch.setattr(os, "environ", worker_environment(SETTINGS))


def test_150_in_a_thread_it_works_and_leaves_the_hosts_handlers_alone(embedded):
    handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    progress = Progress()
    worker = Supervisor(options(processes=2), progress)
    with in_thread(worker.run):
        jobs = [tasks.add.dispatch(n, 1).job for n in range(10)]
        eventually(lambda: statuses()[Status.SUCCEEDED] == 10)
        assert handlers == [
            signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)
        ]
        worker.stop.request(Level.GRACEFUL, "the test is done")
    assert progress.counts == {"succeeded": 10}
    assert [row(job)["result"] for job in jobs] == [n + 1 for n in range(10)]


def test_a_child_that_can_not_be_started_now_is_started_later(
    embedded, monkeypatch, caplog
):
    tries = []

    def start(*args):
        tries.append(args)
        if len(tries) == 1:
            raise OSError("no more processes")
        return ChildProcess(*args)

    monkeypatch.setattr(crew, "ChildProcess", start)
    job = tasks.add.dispatch(1, 1).job
    Supervisor(options(drain=True), Progress()).run()
    assert row(job)["status"] == Status.SUCCEEDED
    assert "no more processes" in caplog.text
    assert len(tries) == 2


def test_the_next_child_waits_for_no_row_that_can_not_be_given_back(
    embedded, monkeypatch, announcement
):
    verbs = type(Job.objects.all())
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    worker = Supervisor(options(), Progress())

    def refuse(*args):
        raise OperationalError("as if somebody held the row locked")

    with in_thread(worker.run):
        pid = int(announcement.wait())
        with monkeypatch.context() as patched:
            patched.setattr(verbs, "release", refuse)
            os.kill(pid, signal.SIGKILL)
            eventually(
                lambda: any(c.name for _, c in worker._crew.children() if c.pid != pid)
            )
            assert row(job)["recoveries"] == 0
        # Given back at last, and run by the next child.
        assert int(announcement.wait()) != pid
        announcement.release()
        eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
        assert row(job)["recoveries"] == 1
        worker.stop.request(Level.GRACEFUL, "the test is done")


def test_a_child_that_does_not_leave_is_killed_in_the_end(embedded, monkeypatch):
    """Even one whose own time to leave would not be over for long."""
    monkeypatch.setattr(supervisor_module, "_GIVING_BACK", 0.1)
    job = worker_tasks.start_a_thread_that_stays.dispatch().job
    worker = Supervisor(options(shutdown_timeout=0), Progress())
    with in_thread(worker.run):
        eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
        [(_, child)] = worker._crew.children()
        worker.stop.request(Level.GRACEFUL, "the test is done")
        eventually(lambda: child.is_leaving)
    assert child._process.wait(60) == -signal.SIGKILL


def test_only_a_child_that_stays_is_told_of_a_killed_run():
    """One that was told to stop may not look any more at what it hears."""
    worker, told = Supervisor(options(), Progress()), []

    def child(name, **given):
        given = {"name": name, "is_leaving": False, "was_told": False, **given}
        return None, SimpleNamespace(tell=lambda _: told.append(name), **given)

    there = [child(None), child("let go", was_told=True), child("l", is_leaving=True)]
    worker._crew.children = lambda: there
    worker._untold.append(Killed(1, 1, Cancelled()))
    worker._tell_killed()
    assert told == []
    there.append(child("stays"))
    for _ in range(2):
        worker._tell_killed()
    assert told == ["stays"]


def test_no_signal_comes_before_the_child_has_said_how_it_takes_it(monkeypatch):
    masks = []

    def note(*args, **kwargs):
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        raise OSError("enough")

    monkeypatch.setattr("subprocess.Popen", note)
    with pytest.raises(OSError, match="enough"):
        ChildProcess(1, options(), print)
    assert {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} <= masks[0]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_the_last_child_is_killed_while_the_supervisor_may_still_give_its_jobs_back():
    """Kubernetes kills it 30 seconds after its SIGTERM, if nothing else is set."""
    with override_settings(LEASEQUEUE={}):
        assert conf.shutdown_timeout + supervisor_module._GRACE <= 27


def open_files():
    """Return this process's descriptors, without those that only wait to be collected."""
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


def test_a_failed_start_leaves_no_descriptors_open(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no more processes")

    before = open_files()
    with monkeypatch.context() as patched:
        patched.setattr("subprocess.Popen", refuse)
        with pytest.raises(OSError, match="no more processes"):
            ChildProcess(1, options(), print)
    assert open_files() <= before


def test_a_start_that_fails_half_way_leaves_nothing_behind(monkeypatch, embedded):
    pipes, real = [], os.pipe

    def pipe():
        if pipes:
            raise OSError("too many open files")
        pipes.append(1)
        return real()

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    before = open_files()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe", pipe)
        with pytest.raises(OSError, match="too many"):
            ChildProcess(1, options(), print)
    assert open_files() <= before
    children, spawn = [], ChildProcess._spawn

    def spawned(*args):
        children.append(spawn(*args))
        return children[0]

    with monkeypatch.context() as patched:
        patched.setattr(ChildProcess, "_spawn", spawned)
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            ChildProcess(1, options(), print)
    assert children[0].returncode == -signal.SIGKILL
    assert open_files() <= before


def test_an_error_of_its_own_ends_the_children_too(embedded, monkeypatch):
    """What the supervisor does not survive, its children notice by their pipes."""
    worker = Supervisor(options(processes=1), Progress())
    children = []

    def broken():
        children.extend(child for _, child in worker._crew.children() if child.name)
        if children:
            raise SystemError("in the supervisor")

    monkeypatch.setattr(worker, "_look_at_drain", broken)
    with pytest.raises(SystemError):
        worker.run()
    assert children[0]._process.wait(60) == 0
