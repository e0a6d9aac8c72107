"""worker.ledger: which lease is to be renewed when."""

import uuid

import pytest

from django_leasequeue import clock
from django_leasequeue.selection import Selection
from django_leasequeue.worker.ledger import Ledger, shortest_lease

TOKEN, OTHER = uuid.uuid4(), uuid.uuid4()


class Time:
    def __init__(self):
        self.now = 1000.0


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr(clock, "now", lambda: time.now)
    return time


@pytest.fixture
def ledger(time):
    return Ledger(shortest_lease=60)


def hold(ledger, *jobs, token=TOKEN, owner="child"):
    ledger.announce(token, owner)
    ledger.claimed(token, [(*job, clock.now()) for job in jobs])


def tokens(holdings):
    return {holding.token for holding in holdings}


def test_an_announced_token_goes_by_the_shortest_lease(ledger, time):
    ledger.announce(TOKEN, "child")
    assert ledger.next_due() == 1020
    assert ledger.due() == []
    time.now = 1020
    assert tokens(ledger.due()) == {TOKEN}


def test_a_second_announcement_does_not_put_off_the_renewal(ledger, time):
    ledger.announce(TOKEN, "child")
    time.now = 1010
    ledger.announce(TOKEN, "child")
    assert ledger.next_due() == 1020


def test_052_jobs_are_renewed_at_a_third_of_the_shortest_of_their_leases(ledger):
    hold(ledger, (1, 30, 3), (2, 300, 30))
    assert ledger.next_due() == 1010


def test_a_lease_counts_from_its_claim_not_from_the_announcement(ledger, time):
    ledger.announce(TOKEN, "child")
    time.now = 5000
    ledger.claimed(TOKEN, [(1, 30, 3, 4995)])
    assert ledger.take_over() == []
    time.now = 5022
    assert [ids for _, ids in ledger.take_over()] == [{1}]


def test_a_renewal_counts_from_when_it_was_sent(ledger, time):
    hold(ledger, (1, 30, 3))
    [holding] = ledger._holdings.values()
    time.now = 1012
    ledger.renewed(holding, {1}, set(), sent_at=1010)
    assert ledger.next_due() == 1020


def test_a_busy_row_is_tried_again_soon(ledger, time):
    hold(ledger, (1, 300, 30), (2, 300, 30))
    time.now = 1100
    [holding] = ledger.due()
    ledger.renewed(holding, {1}, {2}, sent_at=1100)
    assert ledger.next_due() == 1101


def test_a_claim_that_took_nothing_is_forgotten(ledger):
    hold(ledger)
    assert ledger.next_due() is None
    ledger.claimed(TOKEN, [(1, 30, 3, 1000)])
    assert ledger.next_due() is None


def test_a_token_goes_with_its_last_job(ledger):
    hold(ledger, (1, 30, 3), (2, 30, 3))
    ledger.finished(TOKEN, [1])
    assert ledger.next_due() is not None
    ledger.finished(TOKEN, [2, 5])
    assert ledger.next_due() is None
    ledger.finished(TOKEN, [2])


def test_jobs_told_in_several_messages_belong_together(ledger):
    hold(ledger, (1, 30, 3))
    ledger.claimed(TOKEN, [(2, 30, 3, 1000)])
    [holding] = ledger.leave("child")
    assert set(holding.terms) == {1, 2}


def test_an_owner_leaves_with_all_that_is_its(ledger):
    hold(ledger, (1, 30, 3))
    hold(ledger, (2, 30, 3), token=OTHER, owner="sibling")
    assert tokens(ledger.leave("child")) == {TOKEN}
    assert tokens(ledger.leave("child")) == set()
    assert tokens(ledger.leave("sibling")) == {OTHER}


def test_a_job_that_finished_meanwhile_is_not_lost(ledger):
    hold(ledger, (1, 30, 3), (2, 30, 3))
    [holding] = ledger._holdings.values()
    ledger.finished(TOKEN, [1])
    assert ledger.take_lost(holding, {1, 2}) == {2}
    assert ledger.next_due() is None


def test_a_lease_is_over_when_no_write_would_be_taken_any_more(ledger, time):
    hold(ledger, (1, 30, 3), (2, 300, 30))
    time.now = 1026.9
    assert ledger.take_over() == []
    time.now = 1027
    [(holding, ids)] = ledger.take_over()
    assert ids == {1}
    assert ledger.ids(holding) == {2}
    time.now = 1270
    assert [ids for _, ids in ledger.take_over()] == [{2}]
    assert ledger.next_due() is None


def test_what_a_claim_took_is_unknown_so_it_is_never_over(ledger, time):
    ledger.announce(TOKEN, "child")
    time.now = 5000
    assert ledger.take_over() == []


@pytest.mark.parametrize(
    ("queues", "exclude", "expected"),
    [
        ("*", "", 10),
        ("*", "quick", 100),
        ("slow", "", 100),
        ("quick", "", 10),
        ("slow,*", "", 10),
    ],
)
def test_the_shortest_lease_of_a_selection(settings, queues, exclude, expected):
    own = {"quick": {"LEASE": 10}, "slow": {"LEASE": 1000}}
    settings.LEASEQUEUE = {"LEASE": 100, "SAFETY_BUFFER": 1, "QUEUES": own}
    assert shortest_lease(Selection.parse(queues, exclude)) == expected
