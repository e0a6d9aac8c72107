"""worker.handlers: what signals do while a worker runs."""

import os
import signal

import pytest

from django_leasequeue.worker.handlers import handled


@pytest.fixture
def hangup():
    """Restores what SIGHUP does."""
    former = signal.getsignal(signal.SIGHUP)
    yield signal.SIGHUP
    signal.signal(signal.SIGHUP, former)


def test_a_signal_is_handled_and_its_former_handler_comes_back(hangup):
    signal.signal(hangup, signal.default_int_handler)
    heard = []
    with handled(heard.append):
        os.kill(os.getpid(), hangup)
    assert heard == [hangup]
    assert signal.getsignal(hangup) is signal.default_int_handler


def test_a_signal_that_is_ignored_stays_so_as_nohup_wants_it(hangup):
    signal.signal(hangup, signal.SIG_IGN)
    heard = []
    with handled(heard.append):
        os.kill(os.getpid(), hangup)
        assert signal.getsignal(hangup) is signal.SIG_IGN
    assert heard == []
    assert signal.getsignal(hangup) is signal.SIG_IGN
