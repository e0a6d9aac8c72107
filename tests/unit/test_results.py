"""How often a wait looks."""

from itertools import pairwise

import pytest

from django_leasequeue import results


@pytest.fixture
def paced(monkeypatch):
    """Return the moments of the looks of a wait with a timeout, by a clock that only waits move."""
    now = [0.0]
    monkeypatch.setattr(results.clock, "now", lambda: now[0])

    def looks(timeout, lasting=0.0):
        seen = []

        def is_over():
            seen.append(now[0])
            now[0] += lasting
            return False

        def sleep(seconds):
            assert seconds > 0
            now[0] += seconds

        monkeypatch.setattr(results.time, "sleep", sleep)
        assert results.Wait(is_over, timeout).sync() is False
        return seen

    return looks


def test_a_wait_looks_the_more_seldom_the_longer_it_takes(paced):
    """The end is told late by a tenth of the wait at most, and never by more than 0.5 s."""
    seen = paced(60)
    for former, at in pairwise(seen):
        assert at - former <= max(0.01, former * 0.1) + 1e-9
        assert at - former <= 0.5
    assert len([at for at in seen if at <= 1]) < 50
    assert len([at for at in seen if at > 10]) <= 101


def test_looks_that_take_long_are_seldom(paced):
    """A fifth of the time at most."""
    seen = paced(60, lasting=1.0)
    assert all(at - former >= 5 - 1e-9 for former, at in pairwise(seen[:-1]))


def test_the_last_look_is_at_the_end(paced):
    assert paced(3)[-1] == pytest.approx(3)


@pytest.mark.parametrize("timeout", [0, 0.001])
def test_a_short_wait(paced, timeout):
    assert len(paced(timeout)) == (2 if timeout else 1)
