"""The pruner: turns at its duty, and a thread that nothing ends but its worker."""

import logging
import threading

import pytest
from django.db import OperationalError

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Duty, Job, Tally
from django_leasequeue.transitions import prune as pruning
from django_leasequeue.worker import pruner as module
from django_leasequeue.worker.duties import Turn
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.pruner import Pruner
from django_leasequeue.worker.stop import Level
from tests.factories import JobFactory
from tests.helpers import eventually, in_thread, together
from tests.road import row
from tests.tasks import add
from tests.workers import options

pytestmark = pytest.mark.django_db(transaction=True)
DAY = 24 * 3600


def turn(holder, lease=60.0):
    return Turn("prune", holder, "default", lease)


def old(count=1):
    for _ in range(count):
        JobFactory(succeeded=True, finished_at=DatabaseNow(-2 * DAY))


def end_lease():
    """As if the lease's time had gone by."""
    rows = Duty.objects.filter(name="prune")
    assert rows.update(held_until=DatabaseNow(-1)) == 1


@pytest.fixture
def pruner(monkeypatch):
    """Pruners that look often, each closed at the end."""
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.02)
    started = []

    def start():
        one = Pruner("default", "host:1")
        started.append(one)
        one.start()
        return one

    yield start
    for one in started:
        one.close(60)
        assert not one._thread.is_alive()


# --- Turns


def test_a_duty_is_one_holders():
    a, b = turn("a"), turn("b")
    assert a.take()
    assert not b.take()
    assert a.keep() and not b.keep()
    b.give_back(0)
    assert not b.take()
    a.give_back(0)
    assert not a.keep()
    assert b.take()


def test_it_is_due_again_after_a_pause():
    a = turn("a")
    assert a.take()
    a.give_back(3600)
    assert not a.take() and not turn("b").take()
    Duty.objects.update(due_at=DatabaseNow(-1))
    assert turn("b").take()


def test_the_duty_of_one_that_is_gone_is_anothers():
    """And if it was but slow, it keeps and gives back nothing any more."""
    slow, other = turn("slow"), turn("other")
    assert slow.take()
    end_lease()
    assert not slow.keep()
    assert other.take()
    slow.give_back(0)
    assert other.keep()
    assert Duty.objects.get(name="prune").holder == "other"


@pytest.mark.parametrize("there", [True, False], ids=["there", "not yet made"])
def test_of_many_at_once_one_gets_it(there):
    """Fails with an update that does not look again whether the duty is free."""
    for number in range(5):
        Duty.objects.all().delete()
        if there:
            assert turn("first").take()
            turn("first").give_back(0)
        taken = together(6, lambda n, number=number: turn(f"{number}-{n}").take())
        # In the moment in which the row is made, the next look may be the first to get it.
        assert sum(taken) == 1


# --- The thread


def test_it_prunes_and_says_so(pruner, caplog):
    """After the minutes have been counted in which those ended that go."""
    old(3)
    JobFactory(succeeded=True)
    with caplog.at_level(logging.INFO, "django_leasequeue.worker"):
        pruner()
        eventually(lambda: Job.objects.count() == 1)
        assert Tally.objects.exists()
        eventually(lambda: "Removed finished jobs: 3 succeeded." in caplog.text)
    eventually(lambda: Duty.objects.get(name="prune").holder == "")


def test_it_leaves_to_another_what_another_does(pruner):
    assert turn("another").take()
    old()
    looks = threading.Semaphore(0)
    one = pruner()
    real = one._turn.take
    one._turn.take = lambda: (real(), looks.release())[0]
    for _ in range(3):
        assert looks.acquire(timeout=60)
    assert Job.objects.count() == 1
    end_lease()
    eventually(lambda: not Job.objects.exists())


def test_166_trouble_is_told_and_passes(pruner, monkeypatch, caplog):
    """Case 166: what fails is tried again, and is no reason to stop."""
    real, told = pruning.prune, []

    def fail(*args, **options):
        if len(told) < 3:
            told.append(Job.objects.count())
            raise LookupError("as the test asked")
        return real(*args, **options)

    monkeypatch.setattr(pruning, "prune", fail)
    old()
    pruner()
    eventually(lambda: not Job.objects.exists())
    assert told == [1] * 3
    assert "Cannot prune now" in caplog.text


def test_156_it_ends_between_two_steps(pruner, monkeypatch):
    """Case 156: told to stop it removes no more, and leaves the duty to another at once."""
    monkeypatch.setattr(pruning, "ROWS", 2)
    old(7)
    one = Pruner("default", "host:1")
    real = one._may_go_on

    def stopping():
        one.stop()
        return real()

    monkeypatch.setattr(one, "_may_go_on", stopping)
    one._look()
    assert Job.objects.count() == 5
    assert turn("another").take()


def test_one_that_lost_its_duty_ends(monkeypatch):
    monkeypatch.setattr(pruning, "ROWS", 2)
    monkeypatch.setattr(module, "_RENEW_EVERY", 0)
    old(9)
    one = Pruner("default", "host:1")
    real, steps = one._turn.keep, []

    def keep():
        steps.append(Job.objects.count())
        if len(steps) == 2:
            end_lease()
            assert turn("another").take()
        return real()

    monkeypatch.setattr(one._turn, "keep", keep)
    one._look()
    assert steps == [7, 5]
    assert Duty.objects.get(name="prune").holder == "another"


def test_a_long_prune_is_followed_by_a_long_pause(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(module.clock, "now", lambda: now[0])
    one = Pruner("default", "host:1")
    monkeypatch.setattr(one, "_prune", lambda: now.__setitem__(0, now[0] + 30))
    pauses = []
    monkeypatch.setattr(one._turn, "give_back", pauses.append)
    one._look()
    assert pauses == [600]


def test_close_before_the_start():
    Pruner("default", "host:1").close(1)


def test_a_worker_prunes_beside_its_work(monkeypatch):
    """From its start to its end."""
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.02)
    old(3)
    worker = InProcess(options(), Progress())
    with in_thread(worker.run):
        eventually(lambda: not Job.objects.exists())
        job = add.dispatch(1, 2).job
        eventually(lambda: row(job)["status"] == "succeeded")
        worker.stop.request(Level.GRACEFUL, "the test is done")
    assert not any(t.name == "leasequeue-pruner" for t in threading.enumerate())


def test_166_no_worker_fails_because_pruning_does(monkeypatch):
    """Case 166: not even if its rows can't be read at all."""
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.001)

    def fail(*args, **options):
        raise OperationalError("as the test asked")

    monkeypatch.setattr(Turn, "take", fail)
    worker = InProcess(options(), Progress())
    with in_thread(worker.run):
        job = add.dispatch(1, 2).job
        eventually(lambda: row(job)["status"] == "succeeded")
        worker.stop.request(Level.GRACEFUL, "the test is done")
