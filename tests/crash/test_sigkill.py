"""Real workers that are killed without a word."""

import os
import signal
from pathlib import Path

import pytest

from django_leasequeue.models import Job, Worker
from django_leasequeue.states import Status
from tests import tasks, worker_tasks
from tests.helpers import eventually
from tests.models import Effect
from tests.road import row
from tests.workers import end_leases, with_worker_tasks


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def stop(process):
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_a_killed_childs_job_runs_again_and_its_sibling_notices_nothing(
    worker, announcement
):
    for word in ("a", "b"):
        tasks.announce_then_wait.dispatch(announcement.path, word)
    process = worker("--processes=2", "--threads=1")
    pids = dict(reversed(announcement.wait().split()) for _ in range(2))
    assert pids["a"] != pids["b"]
    os.kill(int(pids["a"]), signal.SIGKILL)
    pid, word = announcement.wait().split()
    assert word == "a"
    assert pid not in pids.values()
    killed = Job.objects.get(args__contains='"a"')
    sibling = Job.objects.exclude(pk=killed.pk).get()
    assert (killed.status, killed.recoveries) == (Status.RUNNING, 1)
    assert (killed.attempts, killed.claims) == (0, 2)
    assert "killed by SIGKILL" in killed.errors[-1]["message"]
    assert (sibling.recoveries, sibling.claims) == (0, 1)
    announcement.release(2)
    eventually(lambda: Job.objects.filter(status=Status.SUCCEEDED).count() == 2)
    stop(process)
    assert row(sibling)["claims"] == 1
    assert "was lost: killed by SIGKILL" in process.output


def test_a_killed_childs_job_is_pending_before_anybody_takes_it(worker, announcement):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    # Patient, since on a machine under load the row may be given back only after a while.
    process = worker("--processes=1", "--stop-after=1", "--shutdown-timeout=600")
    child = int(announcement.wait())
    # While its child is dead the supervisor is told to stop: no other child starts.
    process.send(signal.SIGTERM)
    process.wait_for("The worker stops")
    os.kill(child, signal.SIGKILL)
    assert process.wait() == 0
    values = row(job)
    assert (values["status"], values["recoveries"]) == (Status.PENDING, 1)
    assert "killed by SIGKILL" in values["errors"][-1]["message"]
    assert values["processing_token"] is None
    told = [(event.kind, event.data.get("how")) for event in job.timeline()]
    assert told[1:] == [("claimed", None), ("worker_lost", "killed by SIGKILL")]


def test_153_an_idle_child_that_is_killed_is_reaped_and_replaced(worker):
    process = worker("--processes=2")
    eventually(lambda: process.output.count("is ready as worker") == 2)
    before = process.children()
    os.kill(before[0], signal.SIGKILL)
    eventually(lambda: process.output.count("is ready as worker") == 3)
    after = process.children()
    assert len(after) == 2
    assert before[1] in after
    assert not Path(f"/proc/{before[0]}").exists()
    stop(process)


def test_153_children_of_a_killed_supervisor_stop(worker, announcement):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker("--processes=2", "--threads=1", "--shutdown-timeout=600")
    announcement.wait()
    eventually(lambda: Worker.objects.count() == 2)
    children = process.children()
    process.send(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    # The idle one goes at once, the busy one brings its job to its end. Nobody but they can
    # take their rows away.
    eventually(lambda: [is_alive(pid) for pid in children].count(True) == 1)
    assert [one.name for one in Worker.objects.all()] == [row(job)["worker"]]
    assert row(job)["status"] == Status.RUNNING
    announcement.release()
    eventually(lambda: not any(is_alive(pid) for pid in children))
    assert row(job)["status"] == Status.SUCCEEDED
    assert not Worker.objects.exists()
    assert "The supervisor is gone" in process.output


def test_an_orphan_gives_back_what_does_not_end_in_time(worker, announcement):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker("--shutdown-timeout=0.2")
    child = int(announcement.wait())
    process.send(signal.SIGKILL)
    eventually(lambda: not is_alive(child))
    values = row(job)
    assert (values["status"], values["recoveries"]) == (Status.PENDING, 0)


def test_044_when_all_are_killed_the_next_worker_recovers_at_the_leases_end(
    worker, announcement
):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    process = worker()
    announcement.wait()
    process.kill()
    assert row(job)["status"] == Status.RUNNING
    other = tasks.add.dispatch(1, 1).job
    assert worker("--drain").wait() == 0
    assert row(other)["status"] == Status.SUCCEEDED
    assert (row(job)["status"], row(job)["claims"]) == (Status.RUNNING, 1)

    assert end_leases(Job.objects.all()) == 1
    announcement.release()
    assert worker("--drain").wait() == 0
    values = row(job)
    assert values["status"] == Status.SUCCEEDED
    assert (values["recoveries"], values["attempts"], values["claims"]) == (1, 1, 2)
    told = [event.kind for event in job.timeline()]
    assert told[1:] == ["claimed", "worker_lost", "claimed", "succeeded"]


def test_068_an_idle_worker_recovers_without_being_asked(worker, announcement):
    job = tasks.announce_then_wait.dispatch(announcement.path).job
    killed = worker()
    announcement.wait()
    killed.kill()
    process = worker()
    process.wait_for("is ready as worker")
    end_leases(Job.objects.all())
    announcement.wait()
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    stop(process)


def test_an_atomic_task_killed_after_its_writes_leaves_nothing_and_runs_again(
    worker, announcement
):
    job = worker_tasks.write_then_wait.dispatch(announcement.path, "effect").job
    process = worker("--threads=1")
    child = int(announcement.wait().split()[0])
    os.kill(child, signal.SIGKILL)
    again = int(announcement.wait().split()[0])
    assert again != child
    assert row(job)["recoveries"] == 1
    assert not Effect.objects.exists()
    announcement.release()
    eventually(lambda: row(job)["status"] == Status.SUCCEEDED)
    assert Effect.objects.get().pid == again
    stop(process)


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
