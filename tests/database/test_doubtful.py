"""worker.doubtful: what a server takes for a claim after its answer was lost is given back."""

import os
import socket

import pytest
from django.db import connection, connections

from django_leasequeue import clock
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.worker import doubtful
from django_leasequeue.worker.claimer import Claimer
from django_leasequeue.worker.wakeup import Wakeup
from tests.callers import caller
from tests.factories import JobFactory
from tests.helpers import eventually
from tests.road import connection_lost, locked, row, statements
from tests.workers import options

pytestmark = pytest.mark.django_db(transaction=True)
QUERYSET = type(Job.objects.none())


class Leases:
    """Remembers which tokens are kept."""

    def __init__(self):
        self.kept = set()

    def announce(self, token):
        self.kept.add(token)
        return True

    def claimed(self, token, jobs):
        if not jobs:
            self.kept.discard(token)


class Awake(Wakeup):
    """Never sleeps."""

    def sleep(self, seconds):
        return True


@pytest.fixture(autouse=True)
def on_a_server():
    if connection.vendor == "sqlite":
        pytest.skip("no line to a file breaks")


@pytest.fixture
def leases():
    return Leases()


@pytest.fixture
def claimer(leases):
    return Claimer(options(), "host:1", leases, Awake())


@pytest.fixture
def late(monkeypatch):
    """Make the first claim's answer be lost; yields what makes the server carry it out."""
    real, lost = QUERYSET.claim, []

    def claim(self, *args, **kwargs):
        if not lost:
            lost.append((self, args, kwargs))
            raise connection_lost()
        return real(self, *args, **kwargs)

    def carry_out():
        [(rows, args, kwargs)] = lost
        return real(rows, *args, **kwargs).jobs

    monkeypatch.setattr(QUERYSET, "claim", claim)
    return carry_out


def test_what_a_lost_claim_took_after_the_look_for_it_is_given_back(
    claimer, leases, late
):
    job = JobFactory(queue="default")
    assert claimer.claim(4) is None
    assert claimer.claim(4).jobs == []  # the look for what it took
    [taken] = late()
    assert (
        taken.token in leases.kept
    )  # should the worker die now, it is given back, too
    [claimed] = claimer.claim(4).jobs
    assert (claimed.id, claimed.claims, claimed.recoveries) == (job.id, 2, 0)
    assert claimed.token != taken.token
    assert leases.kept == {claimed.token}


def test_a_row_that_is_locked_meanwhile_is_given_back_later(claimer, leases, late):
    first, second = JobFactory.create_batch(2, queue="default")
    claimer.claim(4)
    claimer.claim(4)
    token = {job.token for job in late()}.pop()
    with locked([first]):
        assert [job.id for job in claimer.claim(4).jobs] == [second.id]
        assert token in leases.kept
    assert [job.id for job in claimer.claim(4).jobs] == [first.id]
    assert token not in leases.kept


def test_a_token_is_kept_until_the_server_has_ended_the_statement(
    claimer, leases, late, monkeypatch
):
    """And an idle worker looks again when that time is over."""
    now = [clock.now()]
    monkeypatch.setattr("django_leasequeue.clock.now", lambda: now[0])
    claimer.claim(4)
    [token] = leases.kept
    claimer.claim(4)
    bound = doubtful.longest_statement()
    assert 0 < claimer.claim(4).due_in <= bound
    assert token in leases.kept
    now[0] += bound
    assert claimer.claim(4).due_in is None
    assert token not in leases.kept


def test_the_last_look_is_at_the_end(claimer, late):
    job = JobFactory(queue="default")
    claimer.claim(4)
    claimer.claim(4)
    late()
    claimer.close()
    assert row(job)["status"] == Status.PENDING


def test_without_a_lost_claim_nothing_is_looked_for(claimer):
    claimer.claim(4)  # with a look for leases that are past
    with statements() as sent:
        claimer.claim(4)
    assert len(sent) == 1


@pytest.mark.skipif(
    connection.vendor != "postgresql", reason="others roll back when the line breaks"
)
def test_a_claim_that_waits_for_a_lock_when_its_line_breaks(leases):
    """PostgreSQL doesn't notice, and commits it when it gets the lock."""
    job = JobFactory(queue="default")
    claimer = Claimer(options(), "host:1", leases, Awake())
    lines = []

    def claim():
        lines.append(connections["default"])
        found = claimer.claim(4)
        return None if found is None else [(one.id, one.claims) for one in found.jobs]

    with caller() as holder, caller() as worker:
        assert worker.do(claim) == [(job.id, 1)]  # opens its connection
        Job.objects.filter(pk=job.pk).update(
            status=Status.PENDING, processing_token=None, processing_until=None
        )
        holder.begin()
        holder.do(lambda: _execute("LOCK TABLE leasequeue_job IN SHARE MODE"))
        lost = worker.start(claim)
        worker.wait_until_blocked()
        with socket.socket(fileno=os.dup(lines[0].connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        assert lost.result(60) is None
        assert worker.do(claim) == []
        holder.commit()
        eventually(lambda: row(job)["status"] == Status.RUNNING)
        assert worker.do(claim) == [(job.id, 3)]


def _execute(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
