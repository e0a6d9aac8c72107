"""worker.claimer: a claim is announced first, and none is orphaned."""

from math import inf

import pytest
from django.db import OperationalError

from django_leasequeue import clock
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.worker import doubtful
from django_leasequeue.worker.claimer import Claimer
from django_leasequeue.worker.wakeup import Wakeup
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import row, statements, unwritable
from tests.workers import options

QUERYSET = type(Job.objects.none())


class Leases:
    """Remembers what the claimer told."""

    def __init__(self):
        self.said = []
        self.hears = True

    def announce(self, token):
        self.said.append(("announce", token))
        return self.hears

    def claimed(self, token, jobs):
        self.said.append(("claimed", token, [job.id for job in jobs]))


@pytest.fixture
def leases():
    return Leases()


@pytest.fixture
def awake():
    """A wake-up that never sleeps, and says how long it was to sleep."""

    class Awake(Wakeup):
        slept = ()

        def sleep(self, seconds):
            self.slept += (seconds,)
            return True

    return Awake()


@pytest.fixture
def claimer(leases, awake):
    return Claimer(options(), "host:1", leases, awake)


def test_the_token_is_told_before_the_claim_and_the_jobs_after(
    claimer, leases, monkeypatch
):
    job = JobFactory(queue="default")
    real = QUERYSET.claim

    def claim(self, selection, limit, token, worker, **given):
        assert leases.said == [("announce", token)]
        return real(self, selection, limit, token, worker, **given)

    monkeypatch.setattr(QUERYSET, "claim", claim)
    assert [claimed.id for claimed in claimer.claim(4).jobs] == [job.id]
    (_, token), told = leases.said
    assert told == ("claimed", token, [job.id])
    assert row(job)["processing_token"] == token


def test_an_unheard_announcement_keeps_it_from_claiming(claimer, leases, awake):
    job = JobFactory(queue="default")
    leases.hears = False
    assert claimer.claim(4) is None
    assert row(job)["status"] == Status.PENDING
    assert awake.slept == (1.0,)
    leases.hears = True
    assert len(claimer.claim(4).jobs) == 1


def test_an_idle_worker_announces_a_token_once_and_forgets_it_at_the_end(
    claimer, leases
):
    for _ in range(5):
        assert claimer.claim(4).jobs == []
    [(_, token)] = leases.said
    claimer.close()
    assert leases.said[1:] == [("claimed", token, [])]


def test_each_claim_that_took_something_had_a_token_of_its_own(claimer, leases):
    for _ in range(3):
        JobFactory(queue="default")
        claimer.claim(1)
        claimer.claim(1)
    tokens = [token for kind, token, *_ in leases.said if kind == "claimed"]
    assert len(set(tokens)) == 3
    assert set(Job.objects.values_list("processing_token", flat=True)) == set(tokens)


def test_a_drain_announces_every_claim(leases, awake):
    claimer = Claimer(options(drain=True), "host:1", leases, awake)
    for _ in range(3):
        claimer.claim(4)
    assert [kind for kind, *_ in leases.said] == ["announce"] * 3


@pytest.mark.parametrize(("lease", "every"), [(300, 5), (120, 2), (6, 1)])
def test_past_leases_are_looked_for_now_and_then(
    leases, awake, settings, monkeypatch, lease, every
):
    """Other looks are one statement each; the first also asks for forgotten jobs and slots."""
    settings.LEASEQUEUE = {"LEASE": lease, "SAFETY_BUFFER": 1}
    now = clock.now()
    monkeypatch.setattr("django_leasequeue.worker.claimer.clock.now", lambda: now)
    claimer = Claimer(options(), "host:1", leases, awake)
    sent = []
    for step in (0, 0.1, every - 0.2, 0.2):
        now += step
        with statements() as seen:
            claimer.claim(1)
        sent.append(len(seen))
    assert sent == [4, 1, 1, 2]


def test_a_drain_looks_for_past_leases_before_it_finds_nothing(leases, awake):
    """And not while there are others to be run."""
    claimer = Claimer(options(drain=True), "host:1", leases, awake)
    claimer._expired_at = inf  # so long after the last look
    due, lost = JobFactory(queue="default"), JobFactory(expired=True)
    found = claimer.claim(4)
    assert ([job.id for job in found.jobs], found.suspects) == ([due.id], False)
    assert claimer.claim(4).suspects
    assert [job.id for job in claimer.claim(1, alone=True).jobs] == [lost.id]


@pytest.mark.django_db(transaction=True)
def test_what_a_claim_took_whose_answer_was_lost_is_not_orphaned(
    claimer, leases, awake, monkeypatch
):
    job = JobFactory(queue="default")
    real, lost = QUERYSET.claim, [True]

    def claim(self, *args, **kwargs):
        result = real(self, *args, **kwargs)
        if lost:
            lost.pop()
            raise OperationalError("the answer never came")
        return result

    monkeypatch.setattr(QUERYSET, "claim", claim)
    assert claimer.claim(4) is None
    assert row(job)["status"] == Status.RUNNING
    assert len(awake.slept) == 1
    [claimed] = claimer.claim(4).jobs
    assert claimed.id == job.id
    assert row(job)["processing_token"] == claimed.token
    assert ("announce", claimed.token) in leases.said
    assert leases.said[-1] == ("claimed", claimed.token, [job.id])
    assert (row(job)["attempts"], row(job)["recoveries"]) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_an_outage_takes_one_token(claimer, leases, monkeypatch):
    """Every try with a token of its own would leave as many for the keeper to renew."""
    monkeypatch.setattr(doubtful, "longest_statement", lambda: 0.0)
    real, broken = QUERYSET.claim, [True]

    def claim(self, *args, **kwargs):
        if broken:
            raise OperationalError("the database is away")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(QUERYSET, "claim", claim)
    assert [claimer.claim(4) for _ in range(20)] == [None] * 20
    [(_, token)] = leases.said
    broken.clear()
    JobFactory(queue="default")
    assert claimer.claim(4).jobs == []  # by then it is known that nothing was taken
    assert len(claimer.claim(4).jobs) == 1
    assert leases.said[1] == ("claimed", token, [])


@pytest.mark.django_db(transaction=True)
def test_a_server_that_is_read_only_is_asked_less_and_less_often(
    claimer, awake, caplog
):
    """A look for what a claim took gets through there, and is no end of the outage."""
    JobFactory(queue="default")
    changes = failing(unwritable, times=100, match="UPDATE")
    with caplog.at_level("WARNING", "django_leasequeue"), changes as refused:
        while len(refused) < 20:
            claimer.claim(4)
    # As in Outage: between half and all of 5 s.
    assert all(2.5 <= pause <= 5 for pause in awake.slept[-10:])
    assert len(caplog.records) == 1


@pytest.mark.django_db(transaction=True)
def test_at_the_end_what_a_lost_answer_told_of_is_given_back(claimer, monkeypatch):
    job = JobFactory(queue="default")
    real = QUERYSET.claim

    def claim(self, *args, **kwargs):
        real(self, *args, **kwargs)
        raise OperationalError("the answer never came")

    monkeypatch.setattr(QUERYSET, "claim", claim)
    assert claimer.claim(4) is None
    claimer.close()
    assert row(job)["status"] == Status.PENDING


@pytest.mark.django_db(transaction=True)
def test_a_row_that_spoils_the_claim_does_not_end_the_worker(claimer, monkeypatch):
    def claim(self, *args, **kwargs):
        raise ValueError("a time that is none")

    monkeypatch.setattr(QUERYSET, "claim", claim)
    assert claimer.claim(4) is None
