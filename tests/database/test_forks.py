"""A process that a hook forks ends where it leaves the hook, and runs nothing of the worker's."""

import contextlib
import os
import signal
from functools import partial

import pytest
from django.db import transaction
from django.test import override_settings

from django_leasequeue import registry
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.signals import job_settled, job_started
from django_leasequeue.worker import atomic, events, runner
from django_leasequeue.worker.callbacks import call_all
from tests.claims import NAME, arun, claim, claimed, context_of, registered, run
from tests.factories import JobFactory

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here"),
]

# Exit statuses of the copies.
statuses = []
# Of one that has come back to the test.
CAME_BACK = 99


@pytest.fixture(autouse=True)
def none_yet():
    statuses.clear()


@contextlib.contextmanager
def no_copy_comes_back():
    before = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != before:
            os._exit(CAME_BACK)


def fork(*_, **__):
    pid = os.fork()
    if pid:
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return
    # One that goes on waits for threads that it does not have.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(120)


def fork_and_raise(*_, **__):
    before = os.getpid()
    fork()
    if os.getpid() != before:
        raise ValueError


async def afork(*_):
    fork()


@contextlib.contextmanager
def forks_before(context):
    fork()
    yield


@contextlib.contextmanager
def forks_after(context):
    yield
    fork()


@contextlib.asynccontextmanager
async def aforks(context):
    fork()
    yield
    fork()


def give():
    return "x"


async def agive():
    return "x"


@contextlib.contextmanager
def receiving(signal, receiver):
    signal.connect(receiver, sender=Job)
    try:
        yield
    finally:
        signal.disconnect(receiver, sender=Job)


def within(*names):
    listed = [f"{__name__}.{name}" for name in names]
    return override_settings(LEASEQUEUE={"MIDDLEWARE": listed})


def test_in_a_receiver_of_job_started_it_does_not_run_the_task():
    job = claimed()
    with registered(give), receiving(job_started, fork), no_copy_comes_back():
        outcome = runner.run(job, context_of(job), partial(events.started, job))
    assert (outcome, statuses) == (Succeeded('"x"'), [0])


@pytest.mark.parametrize("manager", ["forks_before", "forks_after"])
def test_in_middleware(manager):
    with within(manager), no_copy_comes_back():
        outcome = run(give)
    assert (outcome, statuses) == (Succeeded('"x"'), [0])


@pytest.mark.parametrize("go", [run, arun])
def test_in_middleware_of_an_async_task(go):
    with within("aforks", "forks_before"), no_copy_comes_back():
        outcome = go(agive)
    assert (outcome, statuses) == (Succeeded('"x"'), [0, 0, 0])


@pytest.mark.parametrize(
    ("callback", "status"), [(fork, 0), (fork_and_raise, 1), (afork, 0)]
)
def test_in_a_callback(callback, status):
    job = claimed()
    with registered(give, on_success=callback), no_copy_comes_back():
        call_all(job, registry.get(NAME), Succeeded('"x"'))
    assert statuses == [status]


def test_in_a_receiver_of_job_settled():
    job = claimed()
    with receiving(job_settled, fork), no_copy_comes_back():
        call_all(job, None, Succeeded('"x"'))
    assert statuses == [0]


def test_after_the_commit_of_an_atomic_task():
    JobFactory(task=NAME, args=[], kwargs={})
    job = claim()

    def task():
        transaction.on_commit(fork)

    def settle(job, outcome):
        return Job.objects.settle([(job, outcome)], with_writes=True)[0]

    with registered(task, atomic=True), no_copy_comes_back():
        ended = atomic.run_and_settle(
            job, context_of(job), using="default", settle=settle
        )
    assert (ended.outcome, statuses) == (Succeeded("null"), [0])
