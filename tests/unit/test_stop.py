"""worker.stop and worker.handlers: how a worker is told to end."""

import os
import signal
import threading

import pytest

from django_leasequeue.worker.handlers import STOPPING, handled, stopper
from django_leasequeue.worker.stop import Level, Stop
from tests.helpers import in_thread


@pytest.fixture
def stop():
    stop = Stop(lambda: woken.append(stop.level))
    stop.woken = woken = []
    return stop


def test_the_level_only_rises_and_each_rise_wakes(stop):
    assert not stop.asked
    stop.request(Level.GRACEFUL, "first")
    since = stop.since
    stop.request(Level.GRACEFUL, "again")
    stop.request(Level.AT_ONCE, "second")
    stop.request(Level.GRACEFUL, "late")
    assert stop.asked
    assert (stop.level, stop.why, stop.since) == (Level.AT_ONCE, "second", since)
    assert stop.woken == [Level.GRACEFUL, Level.AT_ONCE]


@pytest.mark.parametrize("number", STOPPING)
def test_148_a_first_signal_stops_gracefully_a_second_at_once(stop, number):
    former = signal.getsignal(number)
    with handled(stopper(stop)):
        os.kill(os.getpid(), number)
        assert (stop.level, stop.why) == (Level.GRACEFUL, number.name)
        os.kill(os.getpid(), number)
        assert stop.level is Level.AT_ONCE
    assert signal.getsignal(number) is former


def test_150_off_the_main_thread_the_hosts_handlers_stay(stop):
    handlers = [signal.getsignal(number) for number in STOPPING]
    inside = threading.Event()

    def host():
        with handled(stopper(stop)):
            inside.set()
            return [signal.getsignal(number) for number in STOPPING]

    with in_thread(host) as thread:
        assert thread.result() == handlers
    assert inside.is_set()
