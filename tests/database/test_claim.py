"""Claim: what is taken, in which order, how it is marked, and what trouble leaves behind."""

import datetime as dt
import json
import uuid
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection

from django_leasequeue import clock
from django_leasequeue.db import DatabaseNow, database_now
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, Released, RetryLater, Snoozed
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status
from django_leasequeue.transitions import claim as claims
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import (
    WORKER,
    claim,
    connection_lost,
    deadlock,
    ending_after,
    ids,
    lock_wait,
    row,
    statements,
    time_of_reruns,
)
from tests.tasks import add


def soon(seconds):
    return DatabaseNow(dt.timedelta(seconds=seconds))


def claim_all(queues="*", **options):
    return Job.objects.claim(
        Selection.parse(queues), 100, uuid.uuid4(), WORKER, **options
    )


# --- Which jobs, in which order


def test_order():
    """Larger priority first, then the earlier time, then the smaller id."""
    late = JobFactory(run_at=soon(-10))
    early = JobFactory(run_at=soon(-20))
    low = JobFactory(priority=-5, run_at=soon(-30))
    high = JobFactory(priority=5)
    twins = JobFactory.create_batch(2, run_at=late.run_at)
    assert ids(claim()) == ids([high, early, late, *twins, low])


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_limit_takes_the_first(limit):
    """A claim of fewer takes those that come first, and the next one goes on there."""
    jobs = [JobFactory(priority=priority) for priority in (3, 1, 2, 1)]
    order = [jobs[0], jobs[2], jobs[1], jobs[3]]
    taken = []
    while found := claim(limit):
        assert len(found) <= limit
        taken += ids(found)
    assert taken == ids(order)


def test_queues_in_strict_order():
    """A queue named before another is emptied first, whatever the priorities."""
    slow = JobFactory(queue="slow", priority=100)
    urgent = JobFactory(queue="urgent", priority=-100)
    other = JobFactory(queue="other")
    assert ids(claim(queues="urgent,slow")) == ids([urgent, slow])
    assert row(other)["status"] == Status.PENDING


@pytest.mark.parametrize(
    "urgent, ordinary",
    [({"priority": 1}, {"priority": 0}), ({"queue": "a"}, {"queue": "b"})],
)
def test_161_the_order_is_strict(urgent, ordinary):
    """As docs/queues.md says: what is ordinary waits as long as something urgent is due."""
    waiting = JobFactory(**ordinary, run_at=soon(-1000))
    for _ in range(5):
        next_one = JobFactory(**urgent)
        assert ids(claim(1, "a,*")) == [next_one.id]
    assert ids(claim(1, "a,*")) == [waiting.id]


def test_161_a_worker_from_the_other_end_takes_what_waits():
    """What the docs advise against it: with the others busy, both are served."""
    urgent, waiting = JobFactory(queue="a", priority=1), JobFactory(queue="b")
    assert ids(claim(1, "b,*")) == [waiting.id]
    assert ids(claim(1, "a,*")) == [urgent.id]


@pytest.mark.parametrize(
    "queues, expected",
    [("a,*", ["a", "c", "b"]), ("*,a", ["c", "b", "a"]), ("*", ["c", "b", "a"])],
)
def test_star_takes_the_other_queues_as_one(queues, expected):
    """Within `*` the priority decides, not the queue's name."""
    JobFactory(queue="a", priority=0)
    JobFactory(queue="b", priority=1)
    JobFactory(queue="c", priority=2)
    assert [job.queue for job in claim(queues=queues)] == expected


@pytest.mark.parametrize("trait", ["pending", "expired"])
def test_excluded_queues(trait):
    """A queue that is excluded, or not named, is left alone, past leases included."""
    traits = {} if trait == "pending" else {trait: True}
    JobFactory(queue="slow", **traits)
    mail = JobFactory(queue="mail", **traits)
    assert ids(claim(exclude="slow")) == [mail.pk]
    assert claim(queues="mail,other") == []


def test_033_queue_names_are_exact():
    """Another case, an accent or a blank at the end is another queue."""
    for name in ("Mail", "máil", "mail "):
        JobFactory(queue=name)
    mail = JobFactory(queue="mail")
    assert ids(claim(queues="mail")) == [mail.pk]


def test_not_before_its_time():
    """A job is taken once the database's clock has reached run_at."""
    JobFactory(run_at=soon(60))
    due = JobFactory(run_at=soon(-0.001))
    assert ids(claim()) == [due.pk]


def test_delayed_jobs_of_higher_priority_are_passed_over():
    """They wait in their lane and hold up nobody below them."""
    for priority in (50, 100):
        JobFactory(priority=priority, scheduled=True)
    due = JobFactory()
    assert ids(claim()) == [due.pk]


def test_blocked_jobs_are_left():
    """A job that waits for a concurrency slot is outside the claim index."""
    JobFactory(blocked=True)
    assert claim() == []


@pytest.mark.parametrize("trait", ["leased", "succeeded", "cancelled"])
def test_what_is_not_to_be_claimed(trait):
    """A live lease and an ended job are never taken, and not touched."""
    job = JobFactory(**{trait: True})
    before = row(job)
    assert claim() == []
    assert row(job) == before


def test_143_a_failed_job_stays_failed():
    """Claims, with a look at past leases or without, find it never again."""
    job = JobFactory()
    Job.objects.settle([(held, Failed({"message": "as asked"})) for held in claim()])
    before = row(job)
    for expired in (True, False) * 3:
        assert claim_all(expired=expired).jobs == []
    assert row(job) == before
    assert before["status"] == Status.FAILED


# --- What it writes and returns


def test_marks():
    """Status, token, lease by the database's clock, worker and times go in together."""
    job = JobFactory()
    token = uuid.uuid4()
    [held] = claim(token=token)
    after = row(job)
    assert after["status"] == Status.RUNNING
    assert after["processing_token"] == held.token == token
    assert after["worker"] == WORKER
    assert after["worker_ids"] == f"{WORKER}\n"
    assert after["claims"] == held.claims == 1
    started = after["started_at"]
    assert started == after["last_attempted_at"] == held.claimed_at
    lease = after["processing_until"] - started
    # Where the row is read first and then changed, it begins with the change.
    assert 300 <= lease.total_seconds() < 360
    untouched = set(after) - {
        *("status", "processing_token", "processing_until", "worker", "worker_ids"),
        *("claims", "started_at", "last_attempted_at"),
    }
    assert {name: after[name] for name in untouched} == {
        name: getattr(job, name) for name in untouched
    }


def test_claimed_holds_what_a_run_needs(settings):
    """The columns of the row and the terms of its queue's lease."""
    settings.LEASEQUEUE = {"QUEUES": {"mail": {"LEASE": 60, "SAFETY_BUFFER": 6}}}
    job = JobFactory(
        queue="mail",
        args=[1, "é", {"b": 1e22, "a": None}],
        kwargs={"x": [2**70]},
        meta={"by": "admin"},
        attempts=2,
        max_attempts=5,
        recoveries=1,
        errors=[{"message": "before"}],
        round=3,
    )
    [held] = claim()
    assert (held.id, held.queue, held.task) == (job.pk, "mail", "tests.tasks.add")
    assert held.args == '[1,"\\u00e9",{"b":1e+22,"a":null}]'
    assert held.kwargs == f'{{"x":[{2**70}]}}'
    assert json.loads(held.meta) == {"by": "admin"}
    assert (held.attempts, held.max_attempts, held.recoveries) == (2, 5, 1)
    assert (held.errors, held.round) == ([{"message": "before"}], 3)
    assert (held.worker, held.fence) == (WORKER, (job.pk, 1))
    assert (held.lease, held.buffer) == (60, 6)


def test_its_time_is_never_ahead_of_the_databases():
    """However long its statements wait to be heard, or an error would seem to come later than
    the next claim.
    """

    def slowly(execute, *given):
        ends = clock.now() + 0.05
        while clock.now() < ends:
            pass
        return execute(*given)

    JobFactory()
    with connection.execute_wrapper(slowly):
        [held] = claim()
    told = held.database_time()
    # SQLite tells its time in whole milliseconds.
    now = database_now("default") + timedelta(milliseconds=1)
    assert held.claimed_at <= told < now


@pytest.mark.parametrize("key", [None, "k"])
def test_the_row_tells_the_time_that_the_worker_knows(key):
    """Also where the claim is a read and then a change, as with a concurrency key."""
    add.using(concurrency=key).dispatch(1, 2)
    [held] = claim()
    [job] = Job.objects.all()
    assert job.last_attempted_at == job.started_at == held.claimed_at


def test_lease_of_each_queue(settings):
    """Jobs of one claim get the lease of their own queue."""
    settings.LEASEQUEUE = {
        "LEASE": 90,
        "QUEUES": {"long": {"LEASE": 900}},
    }
    for queue in ("long", "short"):
        JobFactory(queue=queue)
        JobFactory(queue=queue, expired=True)
    for held in claim():
        after = row(held.id)
        lease = after["processing_until"] - after["last_attempted_at"]
        expected = 900 if held.queue == "long" else 90
        assert expected == held.lease <= lease.total_seconds() < 1.2 * expected


def test_a_job_for_the_end_of_the_calendar_stops_no_claim():
    """For the last microsecond that Python knows, which SQLite rounds to the year 10000."""
    never = JobFactory(run_at=dt.datetime.max.replace(tzinfo=dt.UTC))
    job = JobFactory(queue="others")
    found = claim_all()
    assert ids(found.jobs) == [job.pk]
    assert row(never)["status"] == Status.PENDING
    assert claim_all().due_in > dt.timedelta(days=365 * 7000).total_seconds()


def test_started_at_is_the_first_claim():
    """A later claim moves only last_attempted_at."""
    job = JobFactory(expired=True)
    assert ids(claim()) == [job.pk]
    after = row(job)
    assert after["started_at"] == job.started_at
    assert after["last_attempted_at"] > job.last_attempted_at


def test_worker_ids_keep_the_newest():
    """The list of workers grows by one a claim and is cut at its old end."""
    job = JobFactory(worker_ids="former\n" * 1000)
    claim()
    kept = row(job)["worker_ids"]
    assert len(kept) == claims.WORKER_IDS
    assert kept.endswith(f"former\n{WORKER}\n")


def test_a_claim_of_nothing_writes_nothing():
    """An idle look neither opens a transaction nor locks."""
    JobFactory(scheduled=True)
    JobFactory(leased=True)
    with (
        failing(AssertionError("wrote"), match="UPDATE"),
        failing(AssertionError("locked"), match="FOR UPDATE"),
    ):
        assert claim() == []


def test_a_claim_of_one_lane_is_one_statement():
    """After the look at the lanes, and without a transaction of its own, where that can be.

    MySQL and MariaDB have no update that returns its rows.
    """
    JobFactory.create_batch(2)
    with statements() as seen:
        assert len(claim(expired=False)) == 2
    sent = [sql.split()[0] for sql in seen]
    if connection.vendor == "mysql":
        assert [sent[0], sent[-3], sent[-2]] == ["SELECT", "SELECT", "UPDATE"]
    else:
        assert sent == ["WITH", "UPDATE"]


@pytest.mark.parametrize("seconds", [30, 4000])
def test_due_in(seconds):
    """It tells when the first waiting job of these queues is due, by the database's clock."""
    JobFactory(queue="mail", run_at=soon(seconds), priority=-50)
    JobFactory(queue="mail", run_at=soon(seconds + 1000), priority=50)
    JobFactory(queue="other", run_at=soon(1))
    found = claim_all("mail")
    assert found.jobs == []
    assert seconds - 60 < found.due_in <= seconds


def test_due_in_without_jobs():
    """None if nothing waits."""
    JobFactory(queue="mail", leased=True)
    JobFactory(queue="other", scheduled=True)
    assert claim_all("mail").due_in is None


def test_due_in_with_jobs_left():
    """0 or less while more are due than were taken."""
    JobFactory.create_batch(3)
    selection = Selection()
    found = Job.objects.claim(selection, 2, uuid.uuid4(), WORKER)
    assert len(found.jobs) == 2
    assert found.due_in <= 0


def test_same_token_again():
    """A claim whose answer was lost finds what it took, by its token, and takes no more."""
    token, since = uuid.uuid4(), clock.now() - 1
    job = JobFactory()
    first = claim(token=token)
    JobFactory(priority=5)
    [again] = claim(token=token, since=since)
    assert ids([again]) == ids(first) == [job.pk]
    assert row(job)["claims"] == 1
    # Its lease began with the first sending at the earliest.
    assert again.renewed_at == since


def test_same_token_again_after_its_lease():
    """What a lost answer told of is not run once its lease may be over: it is recovered."""
    token = uuid.uuid4()
    JobFactory()
    claim(token=token)
    assert claim(token=token, since=clock.now() - 271) == []


def test_unreadable_arguments_spoil_nothing():
    """A row whose JSON somebody broke is claimed like any other; its run will tell."""
    broken, whole = JobFactory(), JobFactory()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE leasequeue_job SET args = '[1', errors = '}' WHERE id = %s",
            [broken.pk],
        )
    assert ids(claim()) == ids([broken, whole])


# --- Leases that are past


def test_past_lease_is_taken_over():
    """A recovery is a claim: recoveries + 1, attempts as they were, the loss in errors."""
    job = JobFactory(expired=True, attempts=1, max_attempts=3)
    [held] = claim()
    assert (held.recoveries, held.attempts, held.claims) == (1, 1, 2)
    after = row(job)
    assert after["status"] == Status.RUNNING
    assert after["processing_token"] == held.token != job.processing_token
    assert after["worker"] == WORKER
    [lost] = held.errors
    assert lost["worker"] == "another worker"
    assert lost["attempt"] == 2


def test_expired_false_leaves_past_leases():
    """Looked for every two seconds or so only; the claims between pass them over."""
    job = JobFactory(expired=True)
    assert claim_all(expired=False).jobs == []
    assert row(job)["processing_token"] == job.processing_token


def test_jobs_that_run_alone_are_claimed_apart():
    """Those with which a worker was lost, in the same order as any; nobody else takes them."""
    lost, due = JobFactory.create_batch(2, expired=True), JobFactory()
    urgent = JobFactory(suspect=1, recoveries=1, priority=9)
    first = claim_all()
    assert (ids(first.jobs), first.suspects) == ([due.pk], True)
    assert claim_all().jobs == []
    alone = claim_all(alone=True)
    assert ids(alone.jobs) == [urgent.pk, *ids(lost)]
    assert (alone.suspects, claim_all(alone=True).suspects) == (True, False)


@pytest.mark.parametrize(
    "before, after",
    [({}, (1, 0)), ({"recoveries": 1, "suspect": 1, "lost_alone": 0}, (2, 1))],
    ids=["in company", "alone"],
)
def test_a_lease_that_ended_counts_against_a_job_that_ran_alone(before, after):
    """Its supervisor is gone, too, and what the row says is all that is known."""
    job = JobFactory(expired=True, **before)
    claim_all()
    job.refresh_from_db()
    assert (job.status, job.suspect) == (Status.PENDING, 1)
    assert (job.recoveries, job.lost_alone) == after


def test_a_stop_leaves_a_job_under_suspicion():
    """It has recorded nothing."""
    job = JobFactory(expired=True)
    [held] = claim()
    Job.objects.release(held.token)
    job.refresh_from_db()
    assert (job.recoveries, job.suspect) == (1, 1)


def test_a_run_that_took_its_lease_for_lost_counts_as_a_recovery():
    """The row says that it was not; but the run had begun, and it is run again."""
    job = JobFactory()
    [held] = claim()
    Job.objects.settle([(held, Released(lost=True))])
    job.refresh_from_db()
    assert (job.status, job.recoveries, job.lost_alone) == (Status.PENDING, 1, 0)
    assert (job.suspect, job.attempts) == (1, 0)


@pytest.mark.parametrize(
    "outcome", [RetryLater(timedelta(0), {}), Snoozed(timedelta(0))]
)
def test_an_outcome_clears_a_job_of_suspicion(outcome):
    """Sent back to pending, it runs beside others again."""
    job = JobFactory(expired=True)
    [held] = claim()
    Job.objects.settle([(held, outcome)])
    job.refresh_from_db()
    assert (job.recoveries, job.lost_alone, job.suspect) == (0, 0, 0)
    assert ids(claim_all().jobs) == [job.pk]


def test_limit_holds_across_lanes():
    """No claim takes more than it asked for, whatever it takes them from."""
    for queue in ("a", "b", "c"):
        JobFactory.create_batch(2, queue=queue)
        JobFactory(queue=queue, expired=True)
    assert len(claim(4)) == 4
    assert len(claim(4)) == 4
    assert len(claim(4)) == 1


def test_past_lease_with_a_rerun():
    """The crash ended a run that another was to follow: the claim is that one."""
    job = JobFactory(
        expired=True,
        rerun=True,
        attempts=2,
        recoveries=2,
        next_args=[8, 9],
        next_kwargs={},
        result=5,
    )
    [held] = claim()
    assert (held.args, held.round, held.attempts, held.recoveries) == ("[8,9]", 2, 0, 0)
    after = row(job)
    assert (after["next_args"], after["next_kwargs"], after["rerun"]) == (
        None,
        None,
        False,
    )
    assert after["result"] is None


def test_past_lease_of_a_job_that_was_to_be_cancelled():
    """Nobody runs it any more, so it is cancelled instead of run again."""
    job = JobFactory(expired=True, cancel_requested_at=soon(-5))
    pending = JobFactory()
    assert ids(claim()) == [pending.pk]
    after = row(job)
    assert after["status"] == Status.CANCELLED
    assert after["processing_token"] is after["processing_until"] is None


# --- Servers and trouble


def test_007_without_skip_locked(monkeypatch):
    """A server that can't pass over locked rows is claimed from all the same."""
    monkeypatch.setattr(connection.features, "has_select_for_update_skip_locked", False)
    jobs = JobFactory.create_batch(3)
    lost = JobFactory(expired=True)
    assert sorted(ids(claim())) == sorted(ids([*jobs, lost]))
    assert claim() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [deadlock, lock_wait])
def test_002_a_deadlock_is_not_the_jobs(error):
    """Five updates of a claim fail; the jobs show nothing of it and are claimed."""
    jobs = JobFactory.create_batch(10)
    with (
        failing(error(), times=5, match='UPDATE "leasequeue_job"') as refused,
        failing(error(), times=5, match="UPDATE `leasequeue_job`") as refused_too,
    ):
        held = claim()
    assert len(refused + refused_too) == 5
    assert ids(held) == ids(jobs)
    for job in jobs:
        after = row(job)
        assert (after["attempts"], after["recoveries"], after["claims"]) == (0, 0, 1)
        assert after["errors"] == []


@pytest.mark.django_db(transaction=True)
def test_002_trouble_that_stays_is_raised(monkeypatch):
    """Reruns are bounded: then the error is the caller's, and the jobs wait as before."""
    monkeypatch.setattr(claims, "RERUN_FOR", 0.5)
    job = JobFactory()
    before = row(job)
    always = failing(deadlock(), times=10**6, match="UPDATE")
    with time_of_reruns(), always as refused, pytest.raises(DatabaseError):
        claim()
    assert len(refused) > 1
    assert row(job) == before
    assert ids(claim()) == [job.pk]


@pytest.mark.django_db(transaction=True)
def test_a_lost_connection_is_not_rerun():
    """Nobody knows what became of the statement; asking again is the caller's, with its token."""
    job = JobFactory()
    token = uuid.uuid4()
    with (
        failing(connection_lost(), match="UPDATE") as refused,
        pytest.raises(DatabaseError),
    ):
        claim(token=token)
    assert len(refused) == 1
    assert ids(claim(token=token)) == [job.pk]


@pytest.mark.django_db(transaction=True)
def test_113_all_of_a_claim_or_nothing():
    """The process may end before any of its statements; no row is left half claimed."""
    jobs = [JobFactory(), JobFactory(queue="other")]
    before = [row(job) for job in jobs]
    for passed in range(1, 100):
        try:
            with ending_after(passed):
                held = claim()
            break
        except DatabaseError:
            assert [row(job) for job in jobs] == before
    assert passed > 3  # it was stopped between its updates, too
    assert sorted(ids(held)) == sorted(ids(jobs))


@pytest.mark.django_db(databases=["default", "other"])
def test_other_database():
    """`using(alias)` claims there, and nowhere else."""
    here, there = JobFactory(), JobFactory(using="other")
    assert ids(claim(using="other")) == [there.pk]
    assert row(here)["status"] == Status.PENDING
