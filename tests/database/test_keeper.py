"""worker.keeper: leases are renewed, and given back for those who are gone."""

import logging

import pytest
from django.db import OperationalError, transaction

from django_leasequeue import clock
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.worker import lease_table, releasing
from django_leasequeue.worker.keeper import Keeper
from django_leasequeue.worker.lease_table import LeaseTable
from django_leasequeue.worker.overdue import Overdue
from django_leasequeue.worker.timed import TimedRun
from tests.factories import JobFactory
from tests.helpers import eventually, in_thread, paused
from tests.road import row
from tests.workers import end_leases

pytestmark = pytest.mark.django_db(transaction=True)


class Audience:
    """Remembers what the keeper told."""

    def __init__(self):
        self.said, self.stopped = [], set()

    def is_stopped(self, owner):
        return owner in self.stopped

    def renewed(self, owner, token, ids, at):
        self.said.append(("renewed", owner, token, ids))

    def lost(self, owner, token, ids, why):
        self.said.append(("lost", owner, token, ids, why))

    def cancelled(self, owner, token, ids):
        self.said.append(("cancelled", owner, token, ids))

    def settled(self, owner, killed):
        self.said.append(("settled", owner, killed.job_id))

    def given_back(self, owner, ids):
        self.said.append(("given back", owner, ids))

    def of(self, kind):
        return [entry for entry in self.said if entry[0] == kind]


class Kept:
    """A running keeper that renews every 0.3 s, with its leases and audience."""

    def __init__(self):
        self.audience, self.leases = Audience(), LeaseTable(300)
        self.keeper = Keeper("default", self.leases, self.audience)
        self.keeper.start()

    def hold(self, *jobs, owner="child", lease=300, buffer=30):
        token = jobs[0].processing_token
        self.keeper.announce(token, owner)
        term = lease, buffer, clock.now()
        self.leases.claimed(token, {term: [job.id for job in jobs]})


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(lease_table, "_PART", 1000)
    kept = Kept()
    yield kept
    kept.keeper.close(60)


@pytest.fixture
def failures(monkeypatch):
    """A list of errors that the next statements of the keeper raise."""
    left = []
    for verb in ("renew_all", "release"):
        real = getattr(type(Job.objects.all()), verb)

        def failing(self, *args, real=real, **kwargs):
            if left:
                raise left.pop(0)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(type(Job.objects.all()), verb, failing)
    return left


def refused():
    return OperationalError("connection refused")


def test_it_renews_again_and_again_and_tells_the_owner(kept):
    job = JobFactory(leased=True)
    before = job.processing_until
    kept.hold(job)
    eventually(lambda: len(kept.audience.of("renewed")) >= 3)
    token = job.processing_token
    assert kept.audience.said[0] == ("renewed", "child", token, {job.id})
    assert kept.audience.of("lost") == []
    job.refresh_from_db()
    assert job.processing_until > before
    assert job.status == Status.RUNNING


def test_a_token_of_which_only_the_announcement_is_known_is_renewed(kept):
    job = JobFactory(leased=True)
    kept.keeper.announce(job.processing_token, "child")
    eventually(lambda: kept.audience.of("renewed"))


def test_057_one_failed_renewal_loses_nothing(kept, failures):
    job = JobFactory(leased=True)
    failures.append(refused())
    kept.hold(job)
    eventually(lambda: kept.audience.of("renewed"))
    assert failures == []
    assert kept.audience.of("lost") == []


@pytest.fixture
def unreleasable(monkeypatch):
    """A set of tokens whose release fails."""
    tokens, real = set(), type(Job.objects.all()).release

    def release(self, token, *args, **options):
        if token in tokens:
            raise refused()
        return real(self, token, *args, **options)

    monkeypatch.setattr(type(Job.objects.all()), "release", release)
    return tokens


def test_what_can_not_be_given_back_stops_no_renewal_and_no_other_release(
    kept, unreleasable
):
    stuck, left, others = (JobFactory(leased=True) for _ in range(3))
    unreleasable.add(stuck.processing_token)
    kept.hold(stuck)
    kept.hold(left)
    kept.hold(others, owner="sibling")
    kept.keeper.give_back("child", None)
    eventually(lambda: row(left)["status"] == Status.PENDING)
    renewals = len(kept.audience.of("renewed"))
    eventually(lambda: len(kept.audience.of("renewed")) > renewals + 3)
    assert row(stuck)["status"] == Status.RUNNING
    unreleasable.clear()
    eventually(lambda: kept.audience.of("given back"))


def test_a_renewal_that_fails_stops_no_other(kept, monkeypatch):
    first, second = JobFactory(leased=True), JobFactory(leased=True)
    real = type(Job.objects.all()).renew_all

    def renew_all(self, tokens):
        if first.processing_token in tokens:
            raise ValueError("only this one")
        return real(self, tokens)

    monkeypatch.setattr(type(Job.objects.all()), "renew_all", renew_all)
    kept.hold(first)
    kept.hold(second)
    eventually(lambda: kept.audience.of("renewed"))


def test_even_an_error_of_its_own_does_not_end_it(kept, failures):
    job = JobFactory(leased=True)
    failures.append(ZeroDivisionError())
    kept.hold(job)
    eventually(lambda: kept.audience.of("renewed"))


def test_a_lease_that_somebody_else_has_is_told_as_lost(kept):
    mine, stolen = JobFactory(leased=True), JobFactory(leased=True)
    kept.hold(mine, stolen)
    [(_, owner, token, ids, why)] = eventually(lambda: kept.audience.of("lost"))
    assert (owner, token, ids) == ("child", mine.processing_token, {stolen.id})
    assert why == "the row is in the name of another worker"
    eventually(lambda: kept.audience.of("renewed"))


def test_a_lease_that_is_past_is_told_as_lost(kept):
    job = JobFactory(leased=True)
    end_leases(Job.objects.all())
    kept.hold(job)
    eventually(lambda: kept.audience.of("lost"))
    assert row(job)["status"] == Status.RUNNING


def test_without_a_database_a_lease_is_told_as_lost_once_it_must_be_over(
    kept, failures
):
    job = JobFactory(leased=True)
    failures.extend(refused() for _ in range(10_000))
    kept.hold(job, lease=0.6, buffer=0.1)
    [(*_, ids, why)] = eventually(lambda: kept.audience.of("lost"))
    assert ids == {job.id}
    assert "in time" in why


def test_what_somebody_leaves_is_given_back_and_others_keep_theirs(kept):
    left, others = JobFactory(leased=True), JobFactory(leased=True)
    kept.hold(left)
    kept.hold(others, owner="sibling")
    # On its board stands, too, what has ended since.
    ran = {(left.processing_token, left.id), (left.processing_token, left.id + 10)}
    kept.keeper.give_back("child", "killed by SIGKILL", ran=ran)
    assert eventually(lambda: kept.audience.of("given back")) == [
        ("given back", "child", {left.id})
    ]
    left.refresh_from_db()
    assert (left.status, left.recoveries, left.attempts) == (Status.PENDING, 1, 0)
    assert "killed by SIGKILL" in left.errors[-1]["message"]
    assert row(others)["status"] == Status.RUNNING


def test_a_stop_gives_back_uncounted(kept):
    job = JobFactory(leased=True)
    kept.hold(job)
    kept.keeper.give_back("child", None)
    eventually(lambda: kept.audience.of("given back"))
    job.refresh_from_db()
    assert (job.status, job.recoveries, job.errors) == (Status.PENDING, 0, [])


def test_a_killed_run_is_told_as_soon_as_it_is_settled(kept, unreleasable):
    """Whatever else its process left, and how long that takes: callbacks wait for it."""
    late, stuck = JobFactory(leased=True), JobFactory(leased=True)
    unreleasable.add(stuck.processing_token)
    for job in (late, stuck):
        kept.hold(job)
    run = TimedRun(late.processing_token, late.id, 1.0, 0.0, None)
    kept.keeper.give_back("child", None, [Overdue(run, 6.0)])
    told = [("settled", "child", late.id)]
    assert eventually(lambda: kept.audience.of("settled")) == told
    assert row(late)["status"] == Status.FAILED
    assert kept.audience.of("given back") == []
    unreleasable.clear()
    eventually(lambda: kept.audience.of("given back"))
    assert kept.audience.of("settled") == told


def test_giving_back_waits_for_the_database(kept, failures):
    job = JobFactory(leased=True)
    failures.extend([refused(), refused()])
    kept.hold(job)
    kept.keeper.give_back("child", None)
    eventually(lambda: kept.audience.of("given back"))
    assert row(job)["status"] == Status.PENDING


def test_giving_back_waits_for_a_row_that_is_locked(kept, second_connection):
    if not second_connection.features.has_select_for_update:
        pytest.skip("rows can't be locked here")
    job = JobFactory(leased=True)
    kept.hold(job)
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        with paused(Job.objects.all().__class__, "release", after=True) as release:
            kept.keeper.give_back("child", None)
            release.wait()
        assert kept.audience.of("given back") == []
    eventually(lambda: kept.audience.of("given back"))
    assert row(job)["status"] == Status.PENDING


def test_giving_back_is_given_up_when_the_leases_are_over(
    kept, failures, caplog, monkeypatch
):
    job = JobFactory(leased=True)
    failures.extend(refused() for _ in range(10_000))
    kept.hold(job, lease=0.4, buffer=0.1)
    kept.keeper.give_back("child", None)
    assert eventually(lambda: kept.audience.of("given back")) == [
        ("given back", "child", set())
    ]
    levels = [record.levelno for record in caplog.records]
    assert logging.ERROR in levels


def test_a_claim_that_arrives_after_its_sender_died_is_found(kept, monkeypatch):
    """The token is looked for twice: a commit may overtake the news of the death."""
    job = JobFactory()
    token = JobFactory.build(leased=True).processing_token
    kept.keeper.announce(token, "child")
    with paused(type(Job.objects.all()), "release", after=True) as first:
        kept.keeper.give_back("child", "killed by SIGKILL")
        first.wait()
        taken = JobFactory.build(leased=True)
        fields = ("status", "processing_until", "started_at", "last_attempted_at")
        values = {name: getattr(taken, name) for name in fields}
        Job.objects.filter(pk=job.pk).update(processing_token=token, **values)
    eventually(lambda: row(job)["status"] == Status.PENDING)
    eventually(lambda: kept.audience.of("given back"))
    # It had not started, so that it has no part in the death.
    assert row(job)["recoveries"] == 0


def test_an_owner_without_anything_is_done_at_once(kept):
    kept.keeper.give_back("child", "killed by SIGKILL")
    assert eventually(lambda: kept.audience.of("given back")) == [
        ("given back", "child", set())
    ]


def test_close_finishes_what_is_to_be_given_back(monkeypatch):
    kept, job = Kept(), JobFactory(leased=True)
    kept.hold(job)
    kept.keeper.give_back("child", None)
    kept.keeper.close(60)
    assert row(job)["status"] == Status.PENDING


def test_close_waits_no_longer_than_it_may(failures):
    kept, job = Kept(), JobFactory(leased=True)
    failures.extend(refused() for _ in range(10_000))
    kept.hold(job)
    kept.keeper.give_back("child", None)
    with in_thread(lambda: kept.keeper.close(0.2)):
        pass
    assert row(job)["status"] == Status.RUNNING
    kept.keeper._thread.join(60)


def test_a_claim_of_which_nothing_is_known_is_looked_for_for_a_while(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    unknown = releasing.PendingRelease(
        "child", [lease_table.Holding("token", "child", 0.0)], None
    )
    assert not unknown.is_over
    now[0] = 1061
    assert unknown.is_over
