"""worker.lease_table: which lease is to be renewed when."""

import uuid

import pytest

from django_leasequeue import clock
from django_leasequeue.conf import WrongSetting
from django_leasequeue.selection import Selection
from django_leasequeue.worker.lease_table import LeaseTable, shortest_lease

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
def leases(time):
    return LeaseTable(shortest_lease=60)


def hold(leases, *jobs, token=TOKEN, owner="child"):
    leases.announce(token, owner)
    for pk, lease, buffer in jobs:
        leases.claimed(token, {(lease, buffer, clock.now()): [pk]})


def tokens(holdings):
    return {holding.token for holding in holdings}


def test_an_announced_token_goes_by_the_shortest_lease(leases, time):
    leases.announce(TOKEN, "child")
    assert leases.next_due() == 1020
    assert leases.due() == []
    time.now = 1020
    assert tokens(leases.due()) == {TOKEN}


def test_a_second_announcement_does_not_put_off_the_renewal(leases, time):
    leases.announce(TOKEN, "child")
    time.now = 1010
    leases.announce(TOKEN, "child")
    assert leases.next_due() == 1020


def test_052_jobs_are_renewed_at_a_third_of_the_shortest_of_their_leases(leases):
    hold(leases, (1, 30, 3), (2, 300, 30))
    assert leases.next_due() == 1010


def test_a_lease_counts_from_its_claim_not_from_the_announcement(leases, time):
    leases.announce(TOKEN, "child")
    time.now = 5000
    leases.claimed(TOKEN, {(30, 3, 4995): [1]})
    assert leases.take_over() == []
    time.now = 5022
    assert [ids for _, ids in leases.take_over()] == [{1}]


def test_a_renewal_counts_from_when_it_was_sent(leases, time):
    hold(leases, (1, 30, 3))
    [holding] = leases._holdings.values()
    time.now = 1012
    leases.renewed(holding, {1}, set(), sent_at=1010)
    assert leases.next_due() == 1020


def test_a_busy_row_is_tried_again_soon(leases, time):
    hold(leases, (1, 300, 30), (2, 300, 30))
    time.now = 1100
    [holding] = leases.due()
    leases.renewed(holding, {1}, {2}, sent_at=1100)
    assert leases.next_due() == 1101


def test_a_claim_that_took_nothing_is_forgotten(leases):
    leases.announce(TOKEN, "child")
    leases.unused(TOKEN)
    assert leases.next_due() is None
    leases.claimed(TOKEN, {(30, 3, 1000): [1]})
    assert leases.next_due() is None


def test_a_token_goes_with_its_last_job(leases):
    hold(leases, (1, 30, 3), (2, 30, 3))
    leases.finished(TOKEN, [1])
    assert leases.next_due() is not None
    leases.finished(TOKEN, [2, 5])
    assert leases.next_due() is None
    leases.finished(TOKEN, [2])


def test_jobs_told_in_several_messages_belong_together(leases):
    hold(leases, (1, 30, 3))
    leases.claimed(TOKEN, {(30, 3, 1000): [2]})
    [holding] = leases.leave("child")
    assert set(holding.terms) == {1, 2}


def test_an_owner_leaves_with_all_that_is_its(leases):
    hold(leases, (1, 30, 3))
    hold(leases, (2, 30, 3), token=OTHER, owner="sibling")
    assert tokens(leases.leave("child")) == {TOKEN}
    assert tokens(leases.leave("child")) == set()
    assert tokens(leases.leave("sibling")) == {OTHER}


def test_a_job_that_finished_meanwhile_is_not_lost(leases):
    hold(leases, (1, 30, 3), (2, 30, 3))
    [holding] = leases._holdings.values()
    leases.finished(TOKEN, [1])
    assert leases.take_lost(holding, {1, 2}) == {2}
    assert leases.next_due() is None


def test_a_lease_is_over_when_no_write_would_be_taken_any_more(leases, time):
    hold(leases, (1, 30, 3), (2, 300, 30))
    time.now = 1026.9
    assert leases.take_over() == []
    time.now = 1027
    [(holding, ids)] = leases.take_over()
    assert ids == {1}
    assert leases.ids(holding) == {2}
    time.now = 1270
    assert [ids for _, ids in leases.take_over()] == [{2}]
    assert leases.next_due() is None


def test_what_a_claim_took_is_unknown_so_it_is_never_over(leases, time):
    leases.announce(TOKEN, "child")
    time.now = 5000
    assert leases.take_over() == []


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


@pytest.mark.parametrize("wrong", [["LEASE"], {"QUEUES": 5}, {"QUEUES": ["mail"]}])
def test_shortest_lease_of_settings_that_can_not_be(settings, wrong):
    """They are told, as wherever they are read: checks that ask a database go by it."""
    settings.LEASEQUEUE = wrong
    with pytest.raises(WrongSetting, match="must be a dict"):
        shortest_lease(Selection())
