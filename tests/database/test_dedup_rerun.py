"""Rerun: a dispatch during a run is followed by exactly one more run, whatever ends the first."""

from datetime import timedelta
from uuid import uuid4

import pytest

from django_leasequeue import Dedup
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from tests.road import claim, row
from tests.tasks import add

ERROR = {"exception_class": "builtins.ValueError", "message": "as asked"}


def dispatch(*args, **flags):
    return Job.objects.dispatch(add, args or (1, 2), dedup=Dedup("k", **flags))


def settle(job, outcome):
    return Job.objects.settle([(job, outcome)])[0].verdict.value


def lease_ends(job):
    Job.objects.filter(pk=job.id).update(processing_until=DatabaseNow(-1))


@pytest.fixture
def running():
    """A claimed job of the id, with two attempts left."""
    Job.objects.dispatch(add, [1, 2], dedup="k", max_attempts=2)
    (job,) = claim()
    return job


# --- What may end the run


def succeeds(job):
    assert settle(job, Succeeded("3")) == "written"


def fails(job):
    assert settle(job, Failed(ERROR)) == "written"


def is_to_be_retried(job):
    assert settle(job, RetryLater(timedelta(hours=1), ERROR)) == "written"


def is_snoozed(job):
    assert settle(job, Snoozed(timedelta(hours=1))) == "written"


def gives_itself_back(job):
    assert settle(job, Released()) == "written"


def is_given_back_by_a_stop(job):
    assert Job.objects.release(job.token) == {job.id}


def dies_with_its_worker(job):
    assert Job.objects.release(job.token, death="killed by SIGKILL") == {job.id}


def loses_its_lease(job):
    """The next claim finds it, in the test."""
    lease_ends(job)


ENDS = [
    succeeds,
    fails,
    is_to_be_retried,
    is_snoozed,
    gives_itself_back,
    is_given_back_by_a_stop,
    dies_with_its_worker,
    loses_its_lease,
]
whatever_ends_it = pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)


@whatever_ends_it
def test_ten_dispatches_during_a_run_give_one_more(running, end):
    """At once, as a new round with nothing counted; and then no other."""
    words = [dispatch(rerun=True).outcome for _ in range(10)]
    assert set(words) == {"rerun"}
    end(running)
    (again,) = claim()
    assert again.id == running.id
    assert (again.round, again.attempts, again.recoveries) == (2, 0, 0)
    assert not row(again)["rerun"]
    succeeds(again)
    assert claim() == []
    after = row(again)
    assert (after["status"], after["claims"], after["round"]) == ("succeeded", 2, 2)
    assert (after["dedup_id"], after["suppressed"]) == ("k", 10)
    assert Job.objects.count() == 1


@whatever_ends_it
@pytest.mark.parametrize("replace_last", [True, False])
def test_the_newest_arguments_are_run(running, end, replace_last):
    """Those of the last dispatch that was to replace; the run under way keeps its own."""
    dispatch(3, 4, rerun=True, replace=True)
    dispatch(5, 6, rerun=True, replace=True)
    if not replace_last:
        dispatch(7, 8, rerun=True)
    during = row(running)
    assert (during["args"], during["next_args"]) == ([1, 2], [5, 6])
    end(running)
    (again,) = claim()
    assert again.args == "[5,6]"
    after = row(again)
    assert (after["args"], after["kwargs"]) == ([5, 6], {})
    assert after["next_args"] is after["next_kwargs"] is None


def test_keyword_arguments_come_along(running):
    """Positional and keyword arguments are one set: none is left from before."""
    Job.objects.dispatch(
        add, kwargs={"a": 5, "b": 6}, dedup=Dedup("k", rerun=True, replace=True)
    )
    succeeds(running)
    (again,) = claim()
    assert (again.args, again.kwargs) == ("[]", '{"a":5,"b":6}')


def test_without_replace_the_arguments_stay(running):
    dispatch(3, 4, rerun=True)
    succeeds(running)
    (again,) = claim()
    assert again.args == "[1,2]"


@pytest.mark.parametrize("end", [fails, is_to_be_retried], ids=["fails", "retries"])
def test_errors_of_the_round_before_are_kept(running, end):
    """A new round starts anew, but what went wrong stays to be read."""
    dispatch(rerun=True)
    end(running)
    after = row(running)
    assert [error["message"] for error in after["errors"]] == ["as asked"]
    assert (after["status"], after["attempts"]) == ("pending", 0)
    assert after["finished_at"] is after["result"] is None


def test_a_result_of_the_round_before_is_not(running):
    dispatch(rerun=True)
    succeeds(running)
    assert row(running)["result"] is None


def test_a_crash_before_the_recovery_is_one_more_run_with_the_newest_arguments(running):
    """The lease is over when the dispatch comes: the recovery itself is that run."""
    lease_ends(running)
    assert dispatch(3, 4, rerun=True, replace=True).outcome == "rerun"
    (again,) = claim()
    assert (again.args, again.round, again.recoveries) == ("[3,4]", 2, 0)
    succeeds(again)
    assert claim() == []
    # The worker that lost it comes too late to end anything.
    assert settle(running, Succeeded("3")) == "lost"


def test_a_crash_of_the_second_run_is_an_ordinary_recovery(running):
    """The flag was consumed by the first; nothing starts over again."""
    dispatch(rerun=True)
    succeeds(running)
    (again,) = claim()
    lease_ends(again)
    (recovered,) = claim()
    assert (recovered.round, recovered.recoveries) == (2, 1)
    succeeds(recovered)
    assert claim() == []


def test_during_the_second_run_it_can_be_asked_for_again(running):
    dispatch(rerun=True)
    succeeds(running)
    (again,) = claim()
    assert dispatch(rerun=True).outcome == "rerun"
    succeeds(again)
    (third,) = claim()
    assert third.round == 3


@pytest.mark.parametrize("asked", ["before", "after"])
def test_cancel_and_rerun(running, asked, django_capture_on_commit_callbacks):
    """A cancel clears the wish of before it; a dispatch after it is work that is wanted."""

    def cancel():
        with django_capture_on_commit_callbacks(execute=True):
            Job.objects.filter(pk=running.id).cancel()

    if asked == "before":
        dispatch(3, 4, rerun=True, replace=True)
        cancel()
    else:
        cancel()
        dispatch(3, 4, rerun=True, replace=True)
    settle(running, Cancelled())
    after = row(running)
    if asked == "before":
        assert (after["status"], after["args"]) == ("cancelled", [1, 2])
        assert (after["rerun"], after["next_args"]) == (False, None)
        assert claim() == []
    else:
        (again,) = claim()
        assert again.args == "[3,4]"
        assert row(again)["cancel_requested_at"] is None


def test_a_holder_that_waits_needs_no_rerun():
    """Pending: the run to come is the one that was asked for."""
    Job.objects.dispatch(add, [1, 2], dedup="k")
    assert dispatch(rerun=True).outcome == "skipped"
    (job,) = claim()
    succeeds(job)
    assert claim() == []


def test_no_rerun_for_a_job_that_holds_the_id_no_more(running):
    """Its window is over while it still runs: another job is made beside it."""
    Job.objects.update(dedup_hold="", dedup_until=DatabaseNow(-1))
    done = dispatch(3, 4, rerun=True)
    assert done.added
    assert not row(running)["rerun"]
    assert {job.id for job in claim()} == {done.job.id}


def test_an_answer_that_was_lost_is_not_taken_for_a_run_of_its_own(running):
    """The settle that began the new round is recognised as written when it is sent again."""
    dispatch(rerun=True)
    succeeds(running)
    assert settle(running, Succeeded("3")) == "written"
    (again,) = claim(token=uuid4())
    assert settle(running, Succeeded("3")) == "written"
    assert row(again)["status"] == "running"
