"""Many worker processes on one table: each job is run exactly once, by all of them."""

import os
import uuid
from collections import Counter

import pytest
from django.db import connection

from django_leasequeue.models import Job
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status
from django_leasequeue.worker.heartbeat import worker_name
from tests import tasks, worker_tasks
from tests.helpers import DEADLINE, eventually, run_together
from tests.workers import SETTINGS, gate, statuses, with_worker_tasks

# How many jobs eight processes share where rows can be locked: the whole number takes
# about half a minute on two cores.
JOBS = int(os.environ.get("LEASEQUEUE_TEST_JOBS", "10000"))


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def holders():
    """Return how many jobs each worker holds at this instant."""
    return Counter(Job.objects.running().values_list("worker", flat=True))


def run_all(worker_process, tmp_path, jobs, processes, threads):
    """Drain so many jobs behind a gate; return the runs and what held jobs at the gate."""
    with gate(tmp_path) as shut:
        specs = [worker_tasks.pass_gate.spec(shut.path, n) for n in range(jobs)]
        Job.objects.dispatch_many(specs)
        process = worker_process(
            "--drain",
            f"--processes={processes}",
            f"--threads={threads}",
            "--verbosity=0",
            "--skip-checks",  # what they say of the test project is not the point
            settings=SETTINGS,
        )

        def all_hold():
            held = holders()
            assert process.is_running, process.output
            assert len(held) == processes, held
            return held

        # On a busy machine many interpreters take minutes to start.
        held = eventually(all_hold, 4 * DEADLINE)
        assert shut.runs() == []
        shut.open()
        code = process.wait(6 * DEADLINE)
        assert code == 0, process.output
        # Nothing but a drain's own lines: no error, no warning.
        said = process.output.splitlines()
        assert said[0] == f"Draining: {jobs} jobs are due."
        assert said[-1] == f"Drained: {jobs} succeeded."
        assert all(line.startswith("So far: ") for line in said[1:-1]), said
        return shut.runs(), held


def assert_each_ran_once(runs, jobs, processes):
    assert sorted(int(word) for _, word in runs) == list(range(jobs))
    assert statuses() == {Status.SUCCEEDED: jobs}
    # Some were claimed ahead and given back, if that process was kept from going on.
    assert set(Job.objects.values_list("attempts", "recoveries")) == {(1, 0)}
    assert len({pid for pid, _ in runs}) == processes


def test_two_processes_of_four_threads_run_400_jobs_once_each(worker_process, tmp_path):
    runs, held = run_all(worker_process, tmp_path, 400, processes=2, threads=4)
    assert_each_ran_once(runs, 400, processes=2)
    assert sum(held.values()) <= 8


def test_001_eight_processes_run_ten_thousand_jobs_once_each(worker_process, tmp_path):
    """At the gate, at one instant, every process holds jobs."""
    if not connection.features.has_select_for_update:
        pytest.skip("one write lock for all is not shared evenly by eight processes")
    runs, held = run_all(worker_process, tmp_path, JOBS, processes=8, threads=16)
    assert_each_ran_once(runs, JOBS, processes=8)
    assert len(held) == 8


def test_008_claims_at_one_time_never_share_a_job():
    specs = [worker_tasks.add_soon.spec(n, 1) for n in range(400)]
    Job.objects.dispatch_many(specs)

    def claim_all():
        mine, name = [], worker_name()
        while True:
            claim = Job.objects.claim(Selection(), 7, uuid.uuid4(), name)
            if not claim.jobs and (claim.due_in is None or claim.due_in > 0):
                return mine
            mine += [job.id for job in claim.jobs]

    taken = run_together([claim_all] * 8)
    ids = [job_id for mine in taken for job_id in mine]
    assert len(ids) == len(set(ids)) == 400
    assert statuses() == {Status.RUNNING: 400}


def claims_by_pid(announcement, number):
    """Wait for so many runs to say that they have started; return their processes."""
    return {announcement.wait().split()[0] for _ in range(number)}


def test_nothing_is_claimed_ahead_of_slow_jobs(worker_process, announcement):
    """A second worker that is idle gets the next slow job, and nobody had it before."""
    first = worker_process("--threads=1", settings=SETTINGS)
    for number in range(3):
        worker_tasks.take_a_while.dispatch(number)
    eventually(lambda: statuses() == {Status.SUCCEEDED: 3})
    second = worker_process("--threads=1", settings=SETTINGS)
    second.wait_for("is ready as worker")
    specs = [tasks.announce_then_wait.spec(announcement.path) for _ in range(2)]
    slow = [dispatch.job.pk for dispatch in Job.objects.dispatch_many(specs)]
    assert len(claims_by_pid(announcement, 2)) == 2
    assert not Job.objects.filter(pk__in=slow).exclude(claims=1).exists()
    announcement.release(2)
    eventually(lambda: statuses() == {Status.SUCCEEDED: 5})
    assert first.is_running


def test_what_was_claimed_ahead_of_a_slow_job_is_soon_for_others(
    worker_process, announcement
):
    """A worker that took jobs for quick ones gives back what does not start soon."""
    worker_process("--threads=1", settings=SETTINGS)
    quick = Job.objects.dispatch_many([tasks.add.spec(1, n) for n in range(50)])
    eventually(lambda: statuses() == {Status.SUCCEEDED: len(quick)})
    specs = [tasks.announce_then_wait.spec(announcement.path) for _ in range(5)]
    slow = [dispatch.job.pk for dispatch in Job.objects.dispatch_many(specs)]
    announcement.wait()
    eventually(lambda: statuses()[Status.PENDING] == 4)
    other = worker_process("--threads=4", settings=SETTINGS)
    assert len(claims_by_pid(announcement, 4)) == 1
    announcement.release(5)
    eventually(lambda: statuses() == {Status.SUCCEEDED: 55})
    rows = Job.objects.filter(pk__in=slow)
    assert not rows.exclude(attempts=1, recoveries=0).exists()
    assert other.is_running
