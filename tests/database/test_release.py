"""Release: jobs given back by token, after a stop or after a death."""

import datetime as dt
import uuid

import pytest
from django.db import DatabaseError, connection

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.transitions import release as releases
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import (
    claim,
    deadlock,
    ending_after,
    locked,
    row,
    statements,
    table,
    time_of_reruns,
)

DEATH = "killed by SIGKILL"


def held(count=1, **options):
    """Jobs that this worker holds by one token."""
    JobFactory.create_batch(count, **options)
    return claim()


def test_a_stop_counts_nothing():
    """Pending again and due at once; no attempt, no recovery, no error."""
    [job] = held(recoveries=1, attempts=1)
    before = row(job)
    assert Job.objects.release(job.token) == {job.id}
    after = row(job)
    assert after["status"] == Status.PENDING
    changes = {name for name in after if after[name] != before[name]}
    assert changes == {"status", "processing_token", "processing_until"}
    [again] = claim()
    assert (again.id, again.claims, again.recoveries) == (job.id, 2, 1)


def test_a_death_is_recorded():
    """recoveries + 1 and an entry in errors that says how and who; attempts as they were."""
    [job] = held(attempts=1, recoveries=1, errors=[{"message": "before"}])
    assert Job.objects.release(job.token, death=DEATH) == {job.id}
    after = row(job)
    assert after["status"] == Status.PENDING
    assert (after["recoveries"], after["attempts"]) == (2, 1)
    before, death = after["errors"]
    assert before == {"message": "before"}
    assert DEATH in death["message"]
    assert (death["worker"], death["attempt"]) == (job.worker, 2)
    assert dt.datetime.fromisoformat(death["at"]) >= job.claimed_at


def test_all_jobs_of_the_token():
    """All it holds, and nothing of any other token."""
    jobs = held(3)
    other = JobFactory(leased=True)
    before = row(other)
    assert Job.objects.release(jobs[0].token) == {job.id for job in jobs}
    assert Job.objects.filter(status=Status.PENDING).count() == 3
    assert row(other) == before


def test_only_these_of_them():
    """With ids only those, and only if the token holds them."""
    first, second, third = held(3)
    stranger = JobFactory(leased=True)
    before = {job: row(job) for job in (second.id, stranger.pk)}
    released = Job.objects.release(first.token, ids=[first.id, third.id, stranger.pk])
    assert released == {first.id, third.id}
    assert {job: row(job) for job in before} == before


def test_no_ids():
    """An empty list of ids is none of them, not all."""
    [job] = held()
    assert Job.objects.release(job.token, ids=[]) == set()
    assert row(job)["status"] == Status.RUNNING


def test_twice():
    """The second time there is nothing left to give back."""
    [job] = held()
    Job.objects.release(job.token, death=DEATH)
    before = row(job)
    assert Job.objects.release(job.token, death=DEATH) == set()
    assert row(job) == before


@pytest.mark.parametrize("left", [-5, 29])
@pytest.mark.parametrize("death", [None, DEATH])
def test_past_or_within_the_buffer(left, death):
    """A lease that ends is left to the next claim, which may be on its way."""
    [job] = held()
    Job.objects.filter(pk=job.id).update(processing_until=DatabaseNow(left))
    before = row(job)
    assert Job.objects.release(job.token, death=death) == set()
    assert row(job) == before


@pytest.mark.parametrize("death", [None, DEATH])
def test_rerun(death):
    """The interrupted run is followed by the one that a dispatch asked for."""
    [job] = held(attempts=1, recoveries=1)
    Job.objects.filter(pk=job.id).update(
        rerun=True, next_args=[8, 9], next_kwargs={"c": 1}
    )
    Job.objects.release(job.token, death=death)
    after = row(job)
    assert after["status"] == Status.PENDING
    assert (after["args"], after["kwargs"]) == ([8, 9], {"c": 1})
    assert (after["next_args"], after["next_kwargs"], after["rerun"]) == (
        None,
        None,
        False,
    )
    assert (after["round"], after["attempts"], after["recoveries"]) == (2, 0, 0)
    assert len(after["errors"]) == (1 if death else 0)


@pytest.mark.parametrize("death", [None, DEATH])
def test_job_that_was_to_be_cancelled(death):
    """It doesn't run any more, which is what was asked for; a death is kept, not counted."""
    [job] = held()
    Job.objects.filter(pk=job.id).update(cancel_requested_at=DatabaseNow())
    assert Job.objects.release(job.token, death=death) == {job.id}
    after = row(job)
    assert after["status"] == Status.CANCELLED
    assert after["finished_at"] is not None
    assert (after["processing_token"], after["recoveries"]) == (None, 0)
    assert len(after["errors"]) == (1 if death else 0)


def test_errors_are_capped(settings):
    """The newest MAX_ERRORS are kept."""
    settings.LEASEQUEUE = {"MAX_ERRORS": 2}
    [job] = held(errors=[{"message": "1"}, {"message": "2"}])
    Job.objects.release(job.token, death=DEATH)
    assert [DEATH in error["message"] for error in row(job)["errors"]] == [False, True]


def test_088_removed_row():
    """A job that somebody deleted is not given back, and comes not back."""
    [job] = held()
    Job.objects.all().delete()
    assert Job.objects.release(job.token, death=DEATH) == set()
    assert table() == {}


def test_unknown_token():
    """A token that took nothing is no error."""
    held()
    before = table()
    assert Job.objects.release(uuid.uuid4(), death=DEATH) == set()
    assert table() == before


def test_without_skip_locked(monkeypatch):
    """A server that can't pass over locked rows serves as well."""
    monkeypatch.setattr(connection.features, "has_select_for_update_skip_locked", False)
    [job] = held()
    assert Job.objects.release(job.token) == {job.id}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("death", [None, DEATH])
def test_113_all_of_a_release_or_nothing(death):
    """The process may end before any of its statements; no job is left half given back."""
    jobs = held(3)
    before = table()
    for passed in range(100):
        try:
            with ending_after(passed):
                released = Job.objects.release(jobs[0].token, death=death)
            break
        except DatabaseError:
            assert table() == before
    assert passed >= (4 if death else 3)
    assert released == {job.id for job in jobs}


@pytest.mark.django_db(transaction=True)
def test_passing_trouble_is_rerun():
    """A deadlock or two: given back all the same, and the death counted once."""
    [job] = held()
    with failing(deadlock(), times=2, match="processing_until") as refused:
        assert Job.objects.release(job.token, death=DEATH) == {job.id}
    assert len(refused) == 2
    assert row(job)["recoveries"] == 1
    assert len(row(job)["errors"]) == 1


@pytest.mark.django_db(transaction=True)
def test_trouble_that_stays_is_raised(monkeypatch):
    """Bounded: if it never comes through, the lease ends by itself."""
    monkeypatch.setattr(releases, "RERUN_FOR", 0.3)
    [job] = held()
    before = row(job)
    always = failing(deadlock(), times=10**6, match="processing_until")
    with time_of_reruns(), always as refused, pytest.raises(DatabaseError):
        Job.objects.release(job.token)
    assert len(refused) > 1
    assert row(job) == before


@pytest.mark.django_db(databases=["default", "other"])
def test_other_database():
    """`using(alias)` gives back there."""
    JobFactory(using="other")
    [job] = claim(using="other")
    assert Job.objects.release(job.token) == set()
    assert Job.objects.using("other").release(job.token) == {job.id}


def test_many_that_are_alike_share_a_statement():
    """Those of a queue with a buffer of its own, too; of the others each has its own."""
    jobs = held(40)
    with statements() as few:
        Job.objects.release(jobs[0].token, ids=[job.id for job in jobs[:2]])
    with statements() as many:
        released = Job.objects.release(jobs[0].token)
    assert len(released) == 38
    assert len(many) == len(few)


def test_each_of_many_gets_what_it_needs(settings):
    """Reruns, cancels, leases that end and other buffers among those that are alike."""
    settings.LEASEQUEUE = {"QUEUES": {"late": {"LEASE": 300, "SAFETY_BUFFER": 100}}}
    jobs = [job.id for job in held(12)]
    late = JobFactory(queue="late")
    token = row(jobs[0])["processing_token"]
    claim(token=token, queues="late")
    rerun, cancelled, ending, gone = jobs[1::3]
    mine = Job.objects.filter
    mine(pk=rerun).update(rerun=True)
    mine(pk=cancelled).update(cancel_requested_at=DatabaseNow())
    mine(pk=ending).update(processing_until=DatabaseNow(1))
    mine(pk=late.pk).update(processing_until=DatabaseNow(90))
    mine(pk=gone).delete()
    released = Job.objects.release(token)
    assert released == set(jobs) - {ending, gone}
    assert mine(status=Status.PENDING).count() == 9
    assert (row(rerun)["round"], row(cancelled)["status"]) == (2, Status.CANCELLED)
    assert {row(ending)["status"], row(late)["status"]} == {Status.RUNNING}


@pytest.mark.django_db(transaction=True)
def test_locked_rows_are_passed_over_among_many():
    """And nobody's own row is waited for."""
    if connection.vendor == "sqlite":
        pytest.skip("it locks the file")
    stranger = JobFactory(leased=True)
    jobs = held(5)
    with locked([jobs[2], stranger]):
        released = Job.objects.release(jobs[0].token)
    assert released == {job.id for job in jobs} - {jobs[2].id}
    assert row(jobs[2])["status"] == Status.RUNNING
