"""worker.forecast: how many jobs are claimed before anybody is free for them."""

import pytest

from django_leasequeue import clock
from django_leasequeue.worker.forecast import Forecast


@pytest.fixture
def after(monkeypatch):
    """Return the forecast after runs of so many seconds, each begun as the last ended."""
    now = [1000.0]
    monkeypatch.setattr(clock, "now", lambda: now[0])

    def run(*seconds, forecast=None, places=1):
        forecast = forecast or Forecast()
        for each in seconds:
            started, now[0] = now[0], now[0] + each
            for _ in range(places):
                forecast.ended(started)
        return forecast

    return run


def test_nothing_is_claimed_ahead_while_nothing_is_known():
    assert Forecast().ahead() == 0


@pytest.mark.parametrize("seconds", [0.11, 1, 3600])
@pytest.mark.parametrize("places", [1, 4, 50])
def test_nothing_is_claimed_ahead_of_slow_jobs(after, seconds, places):
    assert after(*[seconds] * 5, places=places).ahead() == 0


def test_as_many_as_will_start_within_a_tenth_of_a_second(after):
    assert after(*[0.01] * 5).ahead() in (9, 10)
    assert 25 <= after(*[0.01] * 5, places=4).ahead() <= 60
    assert after(*[0.01] * 5).ahead(part=0.5) in (4, 5)
    assert after(0.01).ahead(part=0) == 0


@pytest.mark.parametrize("seconds", [0, 1e-9, 1e-6])
def test_there_is_a_bound_to_it(after, seconds):
    assert after(seconds).ahead() in (1999, 2000)


def test_a_slow_job_among_quick_ones_ends_it_until_some_quick_ones_later(after):
    forecast = after(*[0.001] * 100)
    assert forecast.ahead() >= 90
    after(10, forecast=forecast)
    assert forecast.ahead() == 0
    after(*[0.001] * 60, forecast=forecast)
    assert forecast.ahead() >= 90


def test_what_nobody_had_to_do_is_no_sign_of_slow_jobs(after):
    forecast = after(*[0.001] * 100)
    forecast._last_end -= 3600
    after(*[0.001] * 3, forecast=forecast)
    assert forecast.ahead() >= 90
