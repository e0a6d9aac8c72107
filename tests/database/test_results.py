"""Waiting for jobs: for one and its result, for a group; what is raised instead."""

import asyncio
import datetime as dt

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from django_leasequeue import results
from django_leasequeue.exceptions import (
    JobFailed,
    JobGone,
    JobWasCancelled,
    WaitInTransaction,
    WaitTimeout,
)
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, RetryLater, Succeeded
from django_leasequeue.states import Status
from tests.factories import JobFactory
from tests.helpers import DEADLINE, failing, in_thread, paused
from tests.road import claim, deadlock, statements, toy
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True)

ERROR = {
    "exception_class": "builtins.ValueError",
    "message": "as asked",
    "traceback": "Traceback …",
}
LATER = RetryLater(dt.timedelta(0), ERROR)


def sync(job, timeout=DEADLINE):
    return job.wait(timeout)


def on_a_loop(job, timeout=DEADLINE):
    return async_to_sync(job.await_result)(timeout)


both = pytest.mark.parametrize("wait", [sync, on_a_loop])


def settle(outcome):
    (held,) = claim()
    (done,) = Job.objects.settle([(held, outcome)])
    return done


# --- One job


@both
def test_the_result_of_a_job_that_has_ended(wait):
    """The instance, as old as its dispatch, is then as the row is."""
    job = add.dispatch(1, 2).job
    settle(Succeeded("[1,{}]"))
    assert wait(job, 0) == [1, {}]
    assert (job.status, job.attempts) == (Status.SUCCEEDED, 1)


@both
@pytest.mark.parametrize("before", [None, LATER], ids=["at once", "after a retry"])
def test_a_job_that_ends_while_it_is_waited_for(wait, before):
    with toy(lambda: None, name="tests.twice", max_attempts=2) as task:
        job = task.dispatch().job
    with (
        paused(results, "_seen", after=True) as pause,
        in_thread(lambda: wait(job)) as waiter,
    ):
        pause.wait()
        if before:
            settle(before)
        settle(Succeeded("7"))
        pause.resume()
        assert waiter.result() == 7


@both
def test_a_failed_job_raises_its_newest_error(wait):
    job = JobFactory(failed=True, errors=[{"message": "older"}, ERROR])
    with pytest.raises(
        JobFailed, match=f"Job {job.pk} has failed: .*as asked"
    ) as caught:
        wait(job)
    error = caught.value
    assert (error.job_id, error.exception_class, error.reason, error.traceback) == (
        job.pk,
        *ERROR.values(),
    )


@pytest.mark.parametrize("errors", [[], "broken", ["broken"], [{}]])
def test_a_failed_job_whose_error_was_not_kept(errors):
    job = JobFactory(failed=True, errors=errors)
    with pytest.raises(JobFailed, match="has failed: its error was not kept"):
        job.wait()


@both
def test_a_cancelled_job(wait):
    """Not the error that would cancel the job that waits."""
    job = JobFactory()
    Job.objects.filter(pk=job.pk).cancel()
    with pytest.raises(JobWasCancelled) as caught:
        wait(job)
    assert caught.value.job_id == job.pk


@both
def test_a_row_that_is_gone(wait):
    job = JobFactory()
    Job.objects.filter(pk=job.pk).delete()
    with pytest.raises(JobGone):
        wait(job)


def test_a_row_that_goes_between_the_last_look_and_the_reading():
    job = JobFactory(failed=True)

    def wait():
        with pytest.raises(JobGone):
            job.wait()

    with paused(results, "read") as pause, in_thread(wait) as waiter:
        pause.wait()
        Job.objects.filter(pk=job.pk).delete()
        pause.resume()
        waiter.result()


def test_a_job_that_is_run_again_between_the_look_and_the_reading():
    """It has not ended, whatever the look said."""
    job = JobFactory(failed=True)
    with (
        paused(results, "read") as pause,
        in_thread(lambda: job.wait(DEADLINE)) as waiter,
    ):
        pause.wait()
        Job.objects.filter(pk=job.pk).retry()
        pause.resume()
        settle(Succeeded("7"))
        assert waiter.result() == 7


@both
def test_a_timeout(wait):
    """The job goes on; the instance shows how far it has come."""
    job = JobFactory()
    (held,) = claim()
    Job.objects.progress(held, '{"done":1}')
    with pytest.raises(WaitTimeout, match=r"within 0 s: job \d+ \(running\)") as caught:
        wait(job, dt.timedelta(0))
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.timeout == 0
    assert (job.status, job.progress) == (Status.RUNNING, {"done": 1})


@pytest.mark.parametrize("timeout", [-1, float("nan"), "5", True])
def test_what_is_no_timeout(timeout):
    job = JobFactory(succeeded=True)
    with pytest.raises((TypeError, ValueError), match="timeout must be"):
        job.wait(timeout)
    with pytest.raises((TypeError, ValueError), match="timeout must be"):
        Job.objects.all().wait(timeout)


@both
def test_passing_trouble_runs_again(wait):
    job = JobFactory(succeeded=True)
    with failing(deadlock) as refused:
        assert wait(job) == 3
    assert refused


def test_what_a_look_costs():
    job = JobFactory()
    with statements() as sent, pytest.raises(WaitTimeout):
        job.wait(0)
    assert len(sent) == 2  # a look, and the reading


def test_the_loop_goes_on():
    """Others on it are what ends the job."""
    job = add.dispatch(1, 2).job

    async def both_of_them():
        waiter = asyncio.ensure_future(job.await_result(DEADLINE))
        other = asyncio.ensure_future(asyncio.to_thread(in_own_thread))
        return await asyncio.gather(waiter, other)

    def in_own_thread():
        try:
            settle(Succeeded("7"))
        finally:
            connection.close()

    assert async_to_sync(both_of_them)()[0] == 7


def test_a_wait_that_is_cancelled_leaves_the_job_alone():
    job = JobFactory()

    async def give_up():
        async with asyncio.timeout(0.05):
            await job.await_result()

    with pytest.raises(TimeoutError):
        async_to_sync(give_up)()
    assert Job.objects.get().status == Status.PENDING


# --- In a transaction


@pytest.mark.parametrize("what", ["job", "group"])
def test_a_wait_in_the_transaction_that_dispatched_it(what):
    """It would never end: nobody sees the job before the commit."""
    with transaction.atomic():
        job = add.using(group="a").dispatch(1, 2).job
        wait = job.wait if what == "job" else Job.objects.group("a").wait
        with pytest.raises(WaitInTransaction, match="'default'"):
            wait()
        # The transaction is usable.
        assert Job.objects.count() == 1


def test_without_autocommit():
    """As in a transaction: the waiter's own reads begin one."""
    job = JobFactory()
    transaction.set_autocommit(False)
    try:
        with pytest.raises(WaitInTransaction):
            job.wait()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def test_what_has_ended_is_told_in_a_transaction():
    job = JobFactory(succeeded=True, group="a")
    with transaction.atomic():
        assert job.wait() == 3
        assert Job.objects.group("a").wait()[Status.SUCCEEDED] == 1


# --- Many


def sync_all(jobs, timeout=DEADLINE):
    return jobs.wait(timeout)


def all_on_a_loop(jobs, timeout=DEADLINE):
    return async_to_sync(jobs.await_all)(timeout)


all_of = pytest.mark.parametrize("wait", [sync_all, all_on_a_loop])


def test_counts():
    for traits in [{}, {}, {"leased": True}, {"failed": True}]:
        JobFactory(group="a", **traits)
    JobFactory(group="b", succeeded=True)
    expected = {"pending": 2, "running": 1, "succeeded": 0, "failed": 1, "cancelled": 0}
    assert Job.objects.group("a").counts() == expected
    assert list(Job.objects.group("a").counts()) == list(Status)
    assert sum(Job.objects.counts().values()) == 5
    assert sum(Job.objects.group("A").counts().values()) == 0


@all_of
def test_a_group_is_waited_for(wait):
    """Whatever its jobs end as, and also those that are added meanwhile."""
    JobFactory(group="a")
    JobFactory(queue="other")
    with (
        paused(results, "_seen", after=True) as pause,
        in_thread(lambda: wait(Job.objects.group("a"))) as waiter,
    ):
        pause.wait()
        add.using(group="a").dispatch(1, 2)
        pause.resume()
        for outcome in (Succeeded("7"), Failed(ERROR)):
            (held,) = claim(1, "default")
            Job.objects.settle([(held, outcome)])
        numbers = waiter.result()
    assert (numbers["succeeded"], numbers["failed"]) == (1, 1)
    assert (numbers["pending"], numbers["running"]) == (0, 0)


@all_of
def test_some_of_a_group_are_counted_and_waited_for(wait):
    JobFactory.create_batch(3, group="a", succeeded=True)
    JobFactory(group="a")
    jobs = Job.objects.group("a").order_by("pk")
    assert (jobs[:2].counts()["succeeded"], jobs[2:].counts()["pending"]) == (2, 1)
    assert jobs.distinct()[:3].counts()["succeeded"] == 3
    assert wait(jobs[:3])["succeeded"] == 3
    assert wait(jobs[1:1])["succeeded"] == 0
    with pytest.raises(WaitTimeout, match="1 of 2 jobs"):
        wait(jobs[2:], 0)


@pytest.mark.parametrize("verb", ["counts", "wait", "await_all", "cancel", "retry"])
def test_combined_querysets_are_refused(verb):
    job = JobFactory(group="a")
    jobs = Job.objects.group("a").union(Job.objects.group("b"))
    call = getattr(jobs, verb)
    call = async_to_sync(call) if verb == "await_all" else call
    with pytest.raises(TypeError, match=r"made by union\(\). Make it with filter\(\)"):
        call()
    assert set(Job.objects.pending()) == {job}


@all_of
def test_a_group_that_does_not_end(wait):
    JobFactory(group="a")
    JobFactory(group="a", succeeded=True)
    with pytest.raises(WaitTimeout, match="within 0 s: 1 of 2 jobs"):
        wait(Job.objects.group("a"), 0)


@all_of
def test_a_group_without_jobs_has_ended(wait):
    assert sum(wait(Job.objects.group("a")).values()) == 0


def test_a_group_is_cancelled():
    mine, other = JobFactory(group="a"), JobFactory(group="b")
    assert Job.objects.group("a").cancel().cancelled == {mine.pk}
    assert set(Job.objects.pending()) == {other}


def test_waiting_is_for_a_chosen_set_of_jobs():
    assert not hasattr(Job.objects, "wait")
    assert not hasattr(Job.objects, "await_all")
    for verb in (Job.objects.all().wait, Job().wait, Job().await_result):
        assert verb.alters_data  # a page must not hang


def test_jobs_of_a_task_under_all_its_names():
    with toy(lambda: None, name="tests.new", aliases=["tests.old"]) as task:
        jobs = {JobFactory(task="tests.new"), JobFactory(task="tests.old")}
        JobFactory()
        assert set(Job.objects.of_task(task)) == jobs
        assert set(Job.objects.of_task("tests.old")) == jobs
