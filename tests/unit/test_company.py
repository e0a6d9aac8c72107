"""worker.company: jobs that run alone never run beside others."""

import pytest

from django_leasequeue.transitions.claim import Claim
from django_leasequeue.worker.company import Company

NOTHING = Claim([], None)
SUSPECTS_DUE = Claim([], None, suspects=True)
ONE = Claim([object()], None)


@pytest.mark.parametrize("running", [0, 1, 9])
def test_a_child_that_leaves_them_claims_all_others(running):
    company = Company("leave")
    assert company.choose(running) is False
    assert company.leaves(SUSPECTS_DUE)
    assert not company.leaves(NOTHING)


def test_a_place_aside_claims_one_once_the_last_ones_outcome_is_stored():
    company = Company("only")
    assert company.choose(0) is True
    assert company.choose(1) is None
    assert not company.leaves(SUSPECTS_DUE)


def test_a_process_of_its_own_runs_one_when_it_runs_nothing_else():
    company = Company("between")
    assert company.choose(0) is False
    company.saw(False, SUSPECTS_DUE)
    assert company.choose(2) is None
    assert company.choose(0) is True
    company.saw(True, ONE)
    assert company.choose(1) is None
    assert company.choose(0) is False
