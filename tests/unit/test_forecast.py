"""worker.forecast: how many jobs are claimed before anybody is free for them."""

import pytest

from django_leasequeue.worker.forecast import Forecast


def after(*seconds):
    forecast = Forecast()
    for each in seconds:
        forecast.ended(each)
    return forecast


def test_nothing_is_claimed_ahead_while_nothing_is_known():
    assert Forecast().ahead(4) == 0


@pytest.mark.parametrize("seconds", [0.11, 1, 3600])
def test_nothing_is_claimed_ahead_of_slow_jobs(seconds):
    assert after(*[seconds] * 5).ahead(50) == 0


def test_as_many_as_will_start_within_a_tenth_of_a_second():
    assert after(*[0.01] * 5).ahead(4) in (39, 40)
    assert after(*[0.01] * 5).ahead(1) in (9, 10)
    assert after(0.01).ahead(0) == 0


@pytest.mark.parametrize("seconds", [0, 1e-9, 1e-6])
def test_there_is_a_bound_to_it(seconds):
    assert after(seconds).ahead(4) == 2000


def test_a_slow_job_among_quick_ones_ends_it_until_some_quick_ones_later():
    forecast = after(*[0.001] * 100)
    assert forecast.ahead(4) > 100
    forecast.ended(10)
    assert forecast.ahead(4) == 0
    for _ in range(40):
        forecast.ended(0.001)
    assert forecast.ahead(4) > 100
