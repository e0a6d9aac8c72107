"""Renew: which leases start anew, and what is said of the others."""

import uuid

import pytest
from django.db import DatabaseError, connection

from django_leasequeue import db
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.transitions import renew as renewals
from django_leasequeue.transitions.renew import Renewal
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import claim, deadlock, ids, row, table, time_of_reruns


def leased(token, **options):
    return JobFactory(leased=True, processing_token=token, **options)


def lasts(job):
    """Seconds from now, by the database's clock, until the job's lease ends."""
    found = Job.objects.filter(pk=job.pk).annotate(now=DatabaseNow())
    return (found.get().processing_until - found.get().now).total_seconds()


def test_lease_starts_anew():
    """The end moves to now plus the whole lease; nothing else of the row changes."""
    token = uuid.uuid4()
    job = leased(token, processing_until=DatabaseNow(100))
    before = row(job)
    assert Job.objects.renew(token) == Renewal({job.pk}, set(), set())
    after = row(job)
    assert 280 < lasts(job) <= 300
    assert after.pop("processing_until") > before.pop("processing_until")
    assert after == before


def test_all_jobs_of_the_token_at_once():
    """However many it holds, and none of any other token."""
    token = uuid.uuid4()
    mine = [leased(token, processing_until=DatabaseNow(100)) for _ in range(3)]
    other = JobFactory(leased=True)
    before = row(other)
    assert Job.objects.renew(token).renewed == set(ids(mine))
    assert min(lasts(job) for job in mine) > 200
    assert row(other) == before


def test_each_queue_has_its_lease(settings):
    """Jobs of one token in several queues get each their own queue's lease."""
    settings.LEASEQUEUE = {"QUEUES": {"long": {"LEASE": 3000}, "short": {"LEASE": 90}}}
    token = uuid.uuid4()
    long, short, usual = (leased(token, queue=name) for name in ("long", "short", "x"))
    assert Job.objects.renew(token).renewed == {long.pk, short.pk, usual.pk}
    assert lasts(long) > 2900
    assert lasts(short) <= 90
    assert 200 < lasts(usual) <= 300


@pytest.mark.parametrize("left", [-5, 0, 29])
def test_too_late(left):
    """Past, or with no more than the safety buffer left, a lease is not brought back."""
    token = uuid.uuid4()
    job = leased(token, processing_until=DatabaseNow(left))
    before = row(job)
    assert Job.objects.renew(token) == Renewal(set(), {job.pk}, set())
    assert row(job) == before


def test_buffer_of_each_queue(settings):
    """The buffer that counts is the queue's own."""
    settings.LEASEQUEUE = {"QUEUES": {"bold": {"SAFETY_BUFFER": 0}}}
    token = uuid.uuid4()
    bold = leased(token, queue="bold", processing_until=DatabaseNow(29))
    usual = leased(token, queue="x", processing_until=DatabaseNow(29))
    assert Job.objects.renew(token) == Renewal({bold.pk}, {usual.pk}, set())


def test_nothing_held():
    """A token without jobs is no error: the last may have just been settled."""
    JobFactory(leased=True)
    before = table()
    assert Job.objects.renew(uuid.uuid4()) == Renewal(set(), set(), set())
    assert table() == before


def test_one_late_job_does_not_spoil_the_others():
    """Each job of the token is judged by itself."""
    token = uuid.uuid4()
    late = leased(token, processing_until=DatabaseNow(1))
    lasting = leased(token)
    assert Job.objects.renew(token) == Renewal({lasting.pk}, {late.pk}, set())


def test_settled_or_removed_meanwhile(monkeypatch):
    """What has ended between look and lock is held no more: neither renewed nor lost."""
    JobFactory.create_batch(3)
    settled, removed, kept = claim()
    real = db.take

    def take(rows):
        monkeypatch.setattr(db, "take", real)
        Job.objects.settle([(settled, Succeeded())])
        Job.objects.filter(pk=removed.id).delete()
        return real(rows)

    monkeypatch.setattr(db, "take", take)
    assert Job.objects.renew(kept.token) == Renewal({kept.id}, set(), set())
    assert set(table()) == {settled.id, kept.id}


def test_lease_ends_while_it_waits_for_the_lock(monkeypatch):
    """The update looks at the clock again, since a statement's time is that of its start."""
    JobFactory.create_batch(2)
    late, kept = claim()
    real = db.take

    def take(rows):
        monkeypatch.setattr(db, "take", real)
        taken = real(rows)
        Job.objects.filter(pk=late.id).update(processing_until=DatabaseNow(-1))
        return taken

    monkeypatch.setattr(db, "take", take)
    found = Job.objects.renew(kept.token)
    # The first pass was undone as a whole, with what the patch did in it.
    assert found == Renewal({late.id, kept.id}, set(), set())
    assert min(lasts(row_of) for row_of in Job.objects.all()) > 200


def test_088_a_removed_row_comes_not_back():
    """Renewing a job that somebody deleted is no error and makes no row."""
    JobFactory()
    [held] = claim()
    Job.objects.all().delete()
    assert Job.objects.renew(held.token) == Renewal(set(), set(), set())
    assert table() == {}


@pytest.mark.django_db(transaction=True)
def test_passing_trouble_is_rerun():
    """A deadlock or two, and the lease is renewed all the same."""
    JobFactory()
    [held] = claim()
    with failing(deadlock(), times=2, match="UPDATE") as refused:
        assert Job.objects.renew(held.token).renewed == {held.id}
    assert len(refused) == 2


@pytest.mark.django_db(transaction=True)
def test_trouble_that_stays_is_raised(monkeypatch):
    """The keeper hears of it in good time and keeps its own count of the lease."""
    monkeypatch.setattr(renewals, "RERUN_FOR", 0.3)
    JobFactory()
    [held] = claim()
    before = row(held)
    always = failing(deadlock(), times=10**6, match="UPDATE")
    with time_of_reruns(), always as refused, pytest.raises(DatabaseError):
        Job.objects.renew(held.token)
    assert len(refused) > 1
    assert row(held) == before


def test_without_skip_locked(monkeypatch):
    """On a server that can't pass over locked rows it waits for them instead."""
    monkeypatch.setattr(connection.features, "has_select_for_update_skip_locked", False)
    JobFactory()
    [held] = claim()
    assert Job.objects.renew(held.token).renewed == {held.id}


@pytest.mark.django_db(databases=["default", "other"])
def test_other_database():
    """`using(alias)` renews there."""
    JobFactory(using="other")
    [held] = claim(using="other")
    assert Job.objects.renew(held.token).renewed == set()
    assert Job.objects.using("other").renew(held.token).renewed == {held.id}
