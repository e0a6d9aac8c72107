"""Real workers and jobs that kill them: only those are stopped, and nothing spins."""

import re
import signal

import pytest

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import tasks, worker_tasks
from tests.helpers import eventually
from tests.road import row
from tests.workers import end_leases, statuses, with_worker_tasks


@pytest.fixture(autouse=True)
def known():
    with with_worker_tasks():
        yield


def test_062_only_the_job_that_kills_its_process_fails(worker, announcement):
    """Beside three long innocent ones, with others behind it that never notice."""
    innocent = [
        tasks.announce_then_wait.dispatch(announcement.path, number).job
        for number in range(3)
    ]
    process = worker("--processes=1", "--threads=4")
    for _ in innocent:
        announcement.wait()
    poison = worker_tasks.kill_own_process.dispatch().job
    # They ran beside it when it struck, so that each is now run alone, one at a time.
    for _ in innocent:
        announcement.wait()
        others = [tasks.add.dispatch(1, n).job for n in range(5)]
        eventually(lambda jobs=others: all(row(j)["attempts"] for j in jobs))
        assert statuses()[Status.RUNNING] == 1
        announcement.release()
    eventually(lambda: row(poison)["status"] == Status.FAILED)
    values = row(poison)
    assert (values["recoveries"], values["lost_alone"], values["attempts"]) == (3, 2, 0)
    assert values["errors"][-1]["exception_class"].endswith("WorkersLost")
    assert statuses() == {Status.SUCCEEDED: 18, Status.FAILED: 1}
    for job in innocent:
        values = row(job)
        assert (values["recoveries"], values["lost_alone"]) == (1, 0)
        assert (values["claims"], values["attempts"]) == (2, 1)
    assert not Job.objects.filter(args__contains="1,").exclude(recoveries=0).exists()
    # Nobody is to run alone any more, and the process for that is let go.
    eventually(lambda: len(process.children()) == 1)
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_062_hundreds_that_were_claimed_ahead_of_it_never_notice(
    worker_process, announcement
):
    """Quick jobs wait behind a poison job in its process, beside three long ones."""
    innocent = [
        tasks.announce_then_wait.dispatch(announcement.path, number).job
        for number in range(3)
    ]
    process = worker_process(
        *["--processes=1", "--threads=4", "--verbosity=0"],
        settings={"TASK_MODULES": ["tests.worker_tasks", "tests.far_horizon"]},
    )
    for _ in innocent:
        announcement.wait()
    # By these it learns that jobs are quick.
    first = [tasks.add.spec(0, number) for number in range(50)]
    done = [dispatch.job.pk for dispatch in Job.objects.dispatch_many(first)]
    eventually(
        lambda: Job.objects.filter(pk__in=done, status=Status.SUCCEEDED).count() == 50
    )
    specs = [tasks.add.spec(1, number) for number in range(1000)]
    poison, *others = Job.objects.dispatch_many(
        [worker_tasks.kill_own_process.spec(), *specs]
    )
    for _ in innocent:
        announcement.wait()
        announcement.release()
    eventually(lambda: row(poison.job)["status"] == Status.FAILED)
    behind = Job.objects.filter(pk__in=[other.job.pk for other in others])
    eventually(lambda: behind.filter(status=Status.SUCCEEDED).count() == 1000)
    assert behind.filter(claims=2).count() > 100
    assert not behind.exclude(recoveries=0, attempts=1, claims__lte=2).exists()
    eventually(lambda: not Job.objects.running().exists())
    for job in innocent:
        values = row(job)
        assert (values["status"], values["lost_alone"]) == (Status.SUCCEEDED, 0)
        assert (values["claims"], values["attempts"]) == (2, 1)
    assert statuses() == {Status.SUCCEEDED: 1053, Status.FAILED: 1}
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_four_lost_nodes_do_not_fail_a_healthy_long_job(worker, announcement):
    jobs = [
        tasks.announce_then_wait.dispatch(announcement.path, word).job for word in "ab"
    ]
    for loss in range(4):
        process = worker("--threads=2")
        for _ in jobs[: 1 if loss else 2]:
            announcement.wait()
        process.kill()
        assert end_leases(Job.objects.all())
    assert row(jobs[0])["recoveries"] == 3  # the fourth is seen by whoever is next
    announcement.release(2)
    assert worker("--drain").wait() == 0
    assert [row(job)["status"] for job in jobs] == [Status.SUCCEEDED] * 2
    assert (row(jobs[0])["recoveries"], row(jobs[0])["attempts"]) == (4, 1)


@pytest.mark.parametrize("mode", ["--stop-after=8", "--in-process"])
def test_without_a_process_for_it_a_job_waits_until_it_is_alone(
    worker, announcement, mode
):
    """No place aside is had where jobs are numbered or there is but one process."""
    lost = tasks.announce_then_wait.dispatch(announcement.path, "lost").job
    Job.objects.filter(pk=lost.pk).update(suspect=1, recoveries=1)
    long = tasks.announce_then_wait.dispatch(announcement.path, "long").job
    process = worker(mode, "--threads=3")
    assert announcement.wait().endswith(" long")
    # Now its turn has come: nothing else starts, so that it will be alone.
    later = tasks.add.dispatch(1, 1).job
    announcement.release()
    assert announcement.wait().endswith(" lost")
    assert row(long)["status"] == Status.SUCCEEDED
    assert statuses()[Status.RUNNING] == 1
    announcement.release()
    eventually(lambda: row(later)["status"] == Status.SUCCEEDED)
    assert row(lost)["status"] == Status.SUCCEEDED
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_153_children_that_die_at_once_are_started_ever_more_slowly(worker_process):
    settings = {"TASK_MODULES": ["tests.dying_at_import"]}
    process = worker_process(settings=settings)
    process.wait_for("the next one starts in 2 s")
    said = process.output.partition("the next one starts in 2 s")[0]
    pauses = re.findall(r"the next one starts in ([\d.]+) s", said)
    # They begin anew after one that was so slow to die that it is no cause for a pause.
    assert pauses[-3:] == ["0", "0.5", "1"]
    assert said.count("exited with code 3") == len(pauses) + 1
    process.send(signal.SIGTERM)
    assert process.wait() == 0
