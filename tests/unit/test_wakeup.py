"""worker.wakeup: sleeping until there may be something to do."""

import signal
import threading
from collections import Counter

import pytest

from django_leasequeue.worker.wakeup import Pace, Wakeup
from tests.helpers import DEADLINE, in_thread


def test_it_sleeps_until_the_time_is_over():
    assert Wakeup().sleep(0.001) is False
    assert Wakeup().sleep(-5) is False


def test_a_call_from_another_thread_ends_the_sleep():
    wakeup = Wakeup()
    with in_thread(wakeup.wake):
        assert wakeup.sleep(DEADLINE) is True


def test_calls_made_before_end_the_next_sleep_once():
    wakeup = Wakeup()
    for _ in range(3):
        wakeup.wake()
    assert wakeup.sleep(DEADLINE) is True
    assert wakeup.sleep(0) is False


def test_a_signal_handler_may_call_it():
    wakeup = Wakeup()
    former = signal.signal(signal.SIGUSR1, lambda *_: wakeup.wake())
    try:
        main = threading.main_thread().ident
        with in_thread(lambda: signal.pthread_kill(main, signal.SIGUSR1)):
            assert wakeup.sleep(DEADLINE) is True
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_an_idle_worker_sleeps_for_about_the_poll_interval():
    pauses = [Pace().pause(None, 0.2) for _ in range(100)]
    assert all(0.16 <= pause <= 0.2 for pause in pauses)
    assert len(set(pauses)) > 1


@pytest.mark.parametrize(("due_in", "least"), [(0.05, 0.05), (5, 0.16)])
def test_it_sleeps_no_longer_than_until_the_next_job_is_due(due_in, least):
    assert least <= Pace().pause(due_in, 0.2) <= min(due_in, 0.2)


def test_jobs_that_others_take_are_asked_for_ever_more_seldom():
    pace = Pace()
    pauses = [pace.pause(0, 0.2) for _ in range(20)]
    assert pauses[0] <= 0.01
    assert 0.1 <= pauses[-1] <= 0.2
    pace.found()
    assert pace.pause(-3, 0.2) <= 0.01


@pytest.mark.parametrize("interval", [0.2, 1.0])
def test_164_many_idle_workers_look_seldom_and_not_in_step(interval):
    looks = sorted(look for _ in range(50) for look in idle_looks(interval, 300))
    assert len(looks) <= 50 * 300 / (0.8 * interval)
    # They all began at one instant; in step, they would all look in one tenth of an interval.
    tenths = Counter(int(look / (interval / 10)) for look in looks if look >= 240)
    mean = tenths.total() / (60 / (interval / 10))
    assert max(tenths.values()) <= 5 * mean


def test_164_a_worker_that_slept_for_long_starts_a_job_at_once():
    wakeup = Wakeup()
    pace = Pace()
    for _ in range(1000):
        pace.pause(None, 1.0)
    with in_thread(wakeup.wake):
        assert wakeup.sleep(pace.pause(None, DEADLINE)) is True
    pace.found()
    assert pace.pause(0, 1.0) <= 0.01


def idle_looks(interval, seconds):
    """Yield when a worker looks that finds nothing for so many seconds."""
    pace, now = Pace(), 0.0
    while now < seconds:
        yield now
        now += pace.pause(None, interval)
