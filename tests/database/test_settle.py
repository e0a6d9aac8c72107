"""Settle: what each outcome writes, and that nothing is written without the lease."""

import datetime as dt
import json
import sys
import uuid

import pytest
from django.db import DatabaseError, connection

from django_leasequeue import db
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
from django_leasequeue.states import Status
from django_leasequeue.transitions import settle as settling
from django_leasequeue.transitions.settle import Settled, Verdict
from tests.factories import JobFactory
from tests.helpers import failing
from tests.models import Effect
from tests.road import (
    claim,
    deadlock,
    ending_after,
    lock_wait,
    row,
    statements,
    table,
    time_of_reruns,
)

ERROR = {
    "exception_class": "builtins.ValueError",
    "message": "as asked",
    "traceback": "",
    "attempt": 1,
    "at": "2026-01-02T03:04:05+00:00",
    "worker": "host:1",
}
MINUTE = dt.timedelta(minutes=1)
OUTCOMES = [
    Succeeded("3"),
    Failed(ERROR),
    RetryLater(MINUTE, ERROR),
    Snoozed(MINUTE),
    Cancelled(),
    Released(),
]
each_outcome = pytest.mark.parametrize(
    "outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__
)


def settle(job, outcome):
    [settled] = Job.objects.settle([(job, outcome)])
    return settled


def held(**options):
    """A job that this worker holds."""
    JobFactory(**options)
    [job] = claim()
    return job


def changed(before, after):
    return {name: after[name] for name in after if after[name] != before[name]}


# --- What each outcome writes


@each_outcome
def test_lease_is_given_up(outcome):
    """Whatever the outcome, token and lease end are gone and the token is remembered."""
    job = held()
    settled = settle(job, outcome)
    assert settled == Settled(Verdict.WRITTEN, cancelled=outcome == Cancelled())
    after = row(job)
    assert after["processing_token"] is after["processing_until"] is None
    assert after["last_token"] == job.token
    assert after["worker"] == job.worker


LEASE = {"processing_token", "processing_until", "last_token"}


def test_succeeded():
    """The result, one attempt and the end; recoveries and errors stay as a record."""
    job = held(recoveries=2, errors=[ERROR])
    before = row(job)
    settle(job, Succeeded('{"a":[1,2.5,null]}'))
    after = row(job)
    changes = changed(before, after)
    assert set(changes) == LEASE | {"status", "attempts", "result", "finished_at"}
    assert after["status"] == Status.SUCCEEDED
    assert after["attempts"] == 1
    assert after["result"] == {"a": [1, 2.5, None]}
    assert after["finished_at"] >= job.claimed_at


@pytest.mark.parametrize("text, value", [(None, None), ("null", None), ('"a"', "a")])
def test_succeeded_without_a_result(text, value):
    """None where the value is not kept; JSON's null reads the same."""
    job = held()
    settle(job, Succeeded(text))
    assert row(job)["result"] == value
    assert row(job)["status"] == Status.SUCCEEDED


def test_failed():
    """The error is the newest of the list, the attempt counts, the job has ended."""
    job = held(errors=[{**ERROR, "message": "before"}])
    before = row(job)
    settle(job, Failed(ERROR))
    after = row(job)
    changes = changed(before, after)
    assert set(changes) == LEASE | {"status", "attempts", "errors", "finished_at"}
    assert after["status"] == Status.FAILED
    assert [error["message"] for error in after["errors"]] == ["before", "as asked"]


def test_retry_later():
    """Back to pending, due after the delay by the database's clock, recoveries forgotten."""
    job = held(recoveries=2)
    before = row(job)
    settle(job, RetryLater(MINUTE, ERROR))
    after = row(job)
    changes = changed(before, after)
    assert set(changes) == LEASE | {
        *("status", "attempts", "errors", "run_at", "recoveries"),
    }
    assert after["status"] == Status.PENDING
    assert (after["attempts"], after["recoveries"]) == (1, 0)
    assert after["errors"] == [ERROR]
    found = Job.objects.annotate(now=DatabaseNow()).get(pk=job.id)
    assert MINUTE / 2 < found.run_at - found.now <= MINUTE


@pytest.mark.parametrize("kind", [Failed, RetryLater])
def test_uncounted(kind):
    """Where no run took place no attempt is counted, but the error is kept."""
    job = held(attempts=1)
    terms = (MINUTE, ERROR) if kind is RetryLater else (ERROR,)
    settle(job, kind(*terms, counted=False))
    assert row(job)["attempts"] == 1
    assert row(job)["errors"] == [ERROR]


def test_snoozed():
    """Later, without an attempt and without an error."""
    job = held(recoveries=1, attempts=1)
    before = row(job)
    settle(job, Snoozed(MINUTE))
    after = row(job)
    assert set(changed(before, after)) == LEASE | {"status", "run_at", "recoveries"}
    assert after["status"] == Status.PENDING
    assert after["run_at"] > job.claimed_at + MINUTE / 2


def test_cancelled():
    """Ended because it was asked for; no attempt, no error."""
    job = held()
    before = row(job)
    settle(job, Cancelled())
    after = row(job)
    assert set(changed(before, after)) == LEASE | {"status", "finished_at"}
    assert after["status"] == Status.CANCELLED


def test_released():
    """As if it had not been claimed: due at once, nothing counted."""
    job = held(recoveries=1)
    before = row(job)
    settle(job, Released())
    after = row(job)
    assert set(changed(before, after)) == LEASE | {"status"}
    assert after["status"] == Status.PENDING
    assert [again.id for again in claim()] == [job.id]


def test_errors_are_capped(settings):
    """The newest MAX_ERRORS are kept."""
    settings.LEASEQUEUE = {"MAX_ERRORS": 3}
    job = held(errors=[{**ERROR, "message": str(number)} for number in range(3)])
    settle(job, Failed(ERROR))
    messages = [error["message"] for error in row(job)["errors"]]
    assert messages == ["1", "2", "as asked"]


def test_dedup_id_is_never_written():
    """It is released by the dispatch that next wants it: settle waits for nobody's index."""
    job = held(keyed=True)
    with connection.execute_wrapper(_refuse("dedup_id", "UPDATE")):
        settle(job, Succeeded())
    assert row(job)["dedup_id"] is not None


def _refuse(word, start):
    def wrapper(execute, sql, params, many, context):
        assert not (sql.startswith(start) and word in sql), sql
        return execute(sql, params, many, context)

    return wrapper


def test_results_that_differ_go_in_one_update():
    """Each its own, none of them another's, whatever they hold."""
    texts = ['"a\'b %s"', "null", None, '{"a":[1]}', '"a\'b %s"', '"\\\\"']
    JobFactory.create_batch(len(texts))
    jobs = claim()
    with statements() as sent:
        done = Job.objects.settle(
            [(job, Succeeded(text)) for job, text in zip(jobs, texts, strict=True)]
        )
    assert {settled.verdict for settled in done} == {Verdict.WRITTEN}
    changes = [sql for sql in sent if sql.startswith("UPDATE") and "result" in sql]
    assert len(changes) == 1
    for job, text in zip(jobs, texts, strict=True):
        expected = None if text is None else json.loads(text)
        assert row(job)["result"] == expected


def test_results_that_are_too_much_for_one_value(monkeypatch):
    """PostgreSQL would refuse them as one JSON object."""
    for where in ("django_leasequeue.db", "django_leasequeue.db.by_key"):
        monkeypatch.setattr(sys.modules[where], "MOST_TEXT", 5)
    texts = ['"one"', '"two"', '"three"']
    JobFactory.create_batch(len(texts))
    jobs = claim()
    with statements() as sent:
        Job.objects.settle(
            [(job, Succeeded(text)) for job, text in zip(jobs, texts, strict=True)]
        )
    assert not any("jsonb" in sql for sql in sent)
    assert [row(job)["result"] for job in jobs] == ["one", "two", "three"]


@pytest.mark.parametrize("outcome", [Released(), Snoozed(MINUTE), Cancelled()])
def test_outcomes_that_are_alike_go_in_one_update(outcome):
    """A stop gives back all that was claimed ahead at once."""
    JobFactory.create_batch(5)
    with statements() as sent:
        Job.objects.settle([(job, outcome) for job in claim()])
    changes = [sql for sql in sent if sql.startswith("UPDATE") and "last_token" in sql]
    assert len(changes) == 1
    assert not Job.objects.running().exists()


@pytest.mark.parametrize("length", [10_000, 900_000])
def test_large_results(length):
    """A result up to the limit goes in whole."""
    job = held()
    settle(job, Succeeded(f'"{"x" * length}"'))
    assert len(row(job)["result"]) == length


# --- What others asked of the job meanwhile


@each_outcome
def test_rerun_comes_first(outcome):
    """A dispatch asked for one more run: a new round, with the arguments that waited."""
    job = held(attempts=1, max_attempts=3, recoveries=1)
    Job.objects.filter(pk=job.id).update(
        rerun=True, next_args=[8, 9], next_kwargs={"c": 1}
    )
    settle(job, outcome)
    after = row(job)
    assert after["status"] == Status.PENDING
    assert (after["args"], after["kwargs"]) == ([8, 9], {"c": 1})
    assert (after["next_args"], after["next_kwargs"], after["rerun"]) == (
        None,
        None,
        False,
    )
    assert (after["round"], after["attempts"], after["recoveries"]) == (2, 0, 0)
    assert after["result"] is after["finished_at"] is None
    [again] = claim()
    assert again.args == "[8,9]"


def test_rerun_without_new_arguments():
    """The next round then has those of the last."""
    job = held(args=[1, 2], kwargs={})
    Job.objects.filter(pk=job.id).update(rerun=True)
    settle(job, Failed(ERROR))
    after = row(job)
    assert (after["args"], after["kwargs"], after["round"]) == ([1, 2], {}, 2)
    assert after["errors"] == [ERROR]


@each_outcome
def test_cancel_that_the_run_did_not_look_for(outcome):
    """It keeps the job from going back to pending; a job that has ended has ended."""
    job = held()
    Job.objects.filter(pk=job.id).update(cancel_requested_at=DatabaseNow())
    settled = settle(job, outcome)
    ended = {Succeeded: Status.SUCCEEDED, Failed: Status.FAILED}
    status = ended.get(type(outcome), Status.CANCELLED)
    assert row(job)["status"] == status
    assert settled.cancelled is (status == Status.CANCELLED)
    assert row(job)["finished_at"] is not None


# --- Several at once


def test_group():
    """One transaction for all; verdicts in the order of the jobs."""
    JobFactory.create_batch(5)
    jobs = claim()
    outcomes = [
        Succeeded("1"),
        Failed(ERROR),
        Succeeded("2"),
        Succeeded("1"),
        Snoozed(MINUTE),
    ]
    found = Job.objects.settle(list(zip(jobs, outcomes, strict=True)))
    assert found == [Settled(Verdict.WRITTEN)] * 5
    rows = [row(job) for job in jobs]
    assert [values["result"] for values in rows] == [1, None, 2, 1, None]
    assert [values["status"] for values in rows] == [
        *("succeeded", "failed", "succeeded", "succeeded", "pending"),
    ]


def test_equal_outcomes_share_one_update():
    """A thousand no-ops that succeed cost one update, not a thousand."""
    JobFactory.create_batch(20)
    updates = []

    def wrapper(execute, sql, params, many, context):
        if sql.startswith("UPDATE") and "result" in sql:
            updates.append(sql)
        return execute(sql, params, many, context)

    pairs = [(job, Succeeded()) for job in claim()]
    with connection.execute_wrapper(wrapper):
        Job.objects.settle(pairs)
    assert len(updates) == 1
    assert Job.objects.filter(status=Status.SUCCEEDED).count() == 20


def test_lost_ones_do_not_spoil_the_others():
    """In one group of outcomes each is judged by itself."""
    JobFactory.create_batch(3)
    first, stolen, last = claim()
    Job.objects.filter(pk=stolen.id).update(processing_token=uuid.uuid4(), claims=2)
    found = Job.objects.settle([(job, Succeeded()) for job in (first, stolen, last)])
    assert [settled.verdict for settled in found] == [
        *(Verdict.WRITTEN, Verdict.LOST, Verdict.WRITTEN),
    ]
    assert row(stolen)["status"] == Status.RUNNING


def test_a_token_of_the_group_is_not_every_jobs():
    """The worker that lost a job has it again, beside another: the first run writes nothing.

    Fails with an update that looks for the ids and the tokens of the group.
    """
    late = held()
    Job.objects.filter(pk=late.id).update(processing_until=DatabaseNow(-1))
    JobFactory()
    again = {job.id: job for job in claim()}
    other = again.pop(max(again))
    found = Job.objects.settle([(late, Succeeded("1")), (other, Succeeded("2"))])
    assert [settled.verdict for settled in found] == [Verdict.LOST, Verdict.WRITTEN]
    assert row(late)["status"] == Status.RUNNING
    assert settle(again[late.id], Succeeded("3")).verdict is Verdict.WRITTEN
    assert row(late)["result"] == 3


def test_jobs_of_several_claims_and_queues(settings):
    """Each is guarded by its own token and its own queue's buffer."""
    settings.LEASEQUEUE = {"QUEUES": {"bold": {"SAFETY_BUFFER": 0}}}
    usual, bold = held(queue="x"), held(queue="bold")
    Job.objects.update(processing_until=DatabaseNow(29))
    found = Job.objects.settle([(usual, Succeeded()), (bold, Succeeded())])
    assert [settled.verdict for settled in found] == [Verdict.LOST, Verdict.WRITTEN]


def test_nothing():
    """An empty list is no error."""
    assert Job.objects.settle([]) == []


# --- Without the lease


@each_outcome
@pytest.mark.parametrize("left", [-5, 29])
def test_past_or_within_the_buffer(outcome, left):
    """Once no more than the safety buffer is left, the outcome is refused."""
    job = held()
    Job.objects.filter(pk=job.id).update(processing_until=DatabaseNow(left))
    before = row(job)
    settled = settle(job, outcome)
    assert (settled.verdict, settled.holder) == (Verdict.LOST, job.worker)
    assert "lease ended" in settled.why
    assert row(job) == before


@each_outcome
def test_claimed_by_another(outcome):
    """The late worker changes nothing and learns who holds the job now."""
    job = held()
    Job.objects.filter(pk=job.id).update(processing_until=DatabaseNow(-1))
    [again] = claim()
    Job.objects.filter(pk=job.id).update(worker="host:2")
    before = row(job)
    settled = settle(job, outcome)
    assert (settled.verdict, settled.holder) == (Verdict.LOST, "host:2")
    assert "another worker has claimed it" in settled.why
    assert row(job) == before
    assert settle(again, outcome).verdict is Verdict.WRITTEN


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_ended_by_another(status):
    """An outcome that comes after another's changes nothing: one per job and round."""
    job = held()
    Job.objects.filter(pk=job.id).update(
        status=status,
        processing_token=None,
        processing_until=None,
        finished_at=DatabaseNow(),
        claims=2,
        worker="host:2",
    )
    before = row(job)
    assert settle(job, Failed(ERROR)).verdict is Verdict.LOST
    assert row(job) == before


def test_given_back():
    """Released by its supervisor: pending again, so the late outcome is refused."""
    job = held()
    Job.objects.release(job.token)
    before = row(job)
    settled = settle(job, Succeeded())
    assert settled.verdict is Verdict.LOST
    assert "given back and is pending" in settled.why
    assert row(job) == before


@each_outcome
def test_088_a_removed_row_comes_not_back(outcome):
    """Somebody deleted the job while it ran: lost, no error, no new row."""
    job = held()
    Job.objects.all().delete()
    assert settle(job, outcome) == Settled(Verdict.LOST, None, "its row was removed")
    assert table() == {}


def test_lease_ends_between_lock_and_update(monkeypatch):
    """The update counts its rows; if one is missing the group is judged anew."""
    outcome = Released()
    JobFactory.create_batch(2)
    late, kept = claim()
    real = db.take
    passes = []

    def take(rows):
        passes.append(1)
        taken = real(rows)
        if len(passes) == 1:
            Job.objects.filter(pk=late.id).update(processing_until=DatabaseNow(1))
        return taken

    monkeypatch.setattr(db, "take", take)
    found = Job.objects.settle([(late, outcome), (kept, outcome)])
    # The patch's own write was undone with the first pass.
    assert [settled.verdict for settled in found] == [Verdict.WRITTEN] * 2
    assert len(passes) == 2


@pytest.mark.skipif("connection.vendor != 'mysql'", reason="one statement does both")
def test_lease_of_a_success_ends_between_lock_and_update():
    """The same where a plain success is locked first and then written."""
    JobFactory.create_batch(2)
    late, kept = claim()
    locks = []

    def wrapper(execute, sql, params, many, context):
        answer = execute(sql, params, many, context)
        if "FOR UPDATE" in sql:
            locks.append(sql)
            if len(locks) == 1:
                Job.objects.filter(pk=late.id).update(processing_until=DatabaseNow(1))
        return answer

    with connection.execute_wrapper(wrapper):
        found = Job.objects.settle([(late, Succeeded()), (kept, Succeeded())])
    # The patch's own write was undone with the first pass.
    assert [settled.verdict for settled in found] == [Verdict.WRITTEN] * 2
    assert len(locks) == 2


# --- Trouble


@each_outcome
def test_own_write_is_recognised(outcome):
    """A settle whose answer was lost is asked again: written, and written once."""
    job = held()
    settle(job, outcome)
    before = row(job)
    settled = settle(job, outcome)
    assert settled == Settled(Verdict.WRITTEN, cancelled=outcome == Cancelled())
    assert row(job) == before


@pytest.mark.parametrize("asked", [True, False], ids=["while it ran", "afterwards"])
@pytest.mark.parametrize("outcome", [RetryLater(MINUTE, ERROR), Snoozed(MINUTE)])
def test_own_write_is_told_from_a_later_cancel(outcome, asked):
    job = held()
    jobs = Job.objects.filter(pk=job.id)
    if asked:
        jobs.update(cancel_requested_at=DatabaseNow())
    settle(job, outcome)
    jobs.cancel()
    assert row(job)["status"] == Status.CANCELLED
    assert settle(job, outcome) == Settled(Verdict.WRITTEN, cancelled=asked)


@pytest.mark.parametrize("outcome", [RetryLater(dt.timedelta(0), ERROR), Released()])
def test_own_write_is_recognised_after_another_claim(outcome):
    """Also where it sent the job back to pending and somebody has claimed it since."""
    job = held()
    settle(job, outcome)
    [again] = claim()
    before = row(job)
    assert settle(job, outcome) == Settled(Verdict.WRITTEN)
    assert row(job) == before
    assert settle(again, Succeeded()).verdict is Verdict.WRITTEN


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [deadlock, lock_wait])
def test_004_the_closing_write_deadlocks(error):
    """It is tried again in its own transaction: the work was done once and is not redone."""
    job = held()
    Effect.objects.create(name="counted")
    with failing(error(), times=2, match="finished_at") as refused:
        assert settle(job, Succeeded()).verdict is Verdict.WRITTEN
    assert len(refused) == 2
    after = row(job)
    assert (after["status"], after["attempts"]) == (Status.SUCCEEDED, 1)
    assert claim() == []
    assert Effect.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_004_trouble_that_stays_is_raised(monkeypatch):
    """The settler hears of it and keeps the outcome; the row still is the worker's."""
    monkeypatch.setattr(settling, "RERUN_FOR", 0.3)
    job = held()
    before = row(job)
    always = failing(deadlock(), times=10**6, match="finished_at")
    with time_of_reruns(), always as refused, pytest.raises(DatabaseError):
        settle(job, Succeeded())
    assert len(refused) > 1
    assert row(job) == before
    assert settle(job, Succeeded()).verdict is Verdict.WRITTEN


@pytest.mark.django_db(transaction=True)
def test_each_outcome_whole_or_not_at_all():
    """The process may end before any of a group's statements: each job has its outcome or
    is as it was, and the next settle writes what is missing, and nothing twice."""
    JobFactory.create_batch(3)
    outcomes = [Succeeded("1"), Failed(ERROR), Snoozed(MINUTE)]
    pairs = list(zip(claim(), outcomes, strict=True))
    before = table()
    states = []
    for passed in range(100):
        try:
            with ending_after(passed):
                found = Job.objects.settle(pairs)
            break
        except DatabaseError:
            states.append(
                {pk for pk, values in table().items() if values != before[pk]}
            )
    # The success first, the others together.
    whole = [set(), {pairs[0][0].id}, {job.id for job, _ in pairs}]
    assert all(written in whole for written in states)
    assert len(states) >= 4
    assert [settled.verdict for settled in found] == [Verdict.WRITTEN] * 3
    assert [row(job)["attempts"] for job, _ in pairs] == [1, 1, 0]


def test_inside_a_transaction():
    """As atomic=True does it: the outcome commits with the task's own writes, or neither."""
    job = held()
    before = row(job)
    with pytest.raises(ZeroDivisionError), db.write_transaction(Job.objects.all()):
        assert settle(job, Succeeded()).verdict is Verdict.WRITTEN
        raise ZeroDivisionError
    assert row(job) == before


@pytest.mark.django_db(databases=["default", "other"])
def test_other_database():
    """`using(alias)` settles there."""
    JobFactory(using="other")
    [job] = claim(using="other")
    assert settle(job, Succeeded()).verdict is Verdict.LOST
    [settled] = Job.objects.using("other").settle([(job, Succeeded())])
    assert settled.verdict is Verdict.WRITTEN
    assert row(job, using="other")["status"] == Status.SUCCEEDED
