"""When a process looks at the groups that jobs wait for."""

import pytest

from django_leasequeue.transitions.groups import Looked
from django_leasequeue.worker import group_looks
from django_leasequeue.worker.group_looks import GroupLooks


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self):
        self.time = 1000.0

    def now(self):
        return self.time


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(group_looks, "clock", clock)
    return clock


@pytest.fixture
def looks(clock, monkeypatch):
    """GroupLooks whose looks find the next of `looks.found`, or fail by it."""
    looks = GroupLooks("default")
    looks.found, looks.made = [], 0

    class Jobs:
        def using(self, alias):
            return self

        def start_after_groups(self, seen):
            looks.made += 1
            answer = looks.found.pop(0) if looks.found else Looked(0, others_wait=False)
            if isinstance(answer, Exception):
                raise answer
            return answer

    class Model:
        objects = Jobs()

    monkeypatch.setattr(group_looks, "Job", Model)
    return looks


def test_at_the_start_and_then_now_and_again(looks, clock):
    assert looks.due_in <= 0
    assert looks.look() == 0
    assert 8 <= looks.due_in <= 10


def test_outcomes_are_a_cause_but_once_a_second(looks, clock):
    """However many there are, while no job waits for a group."""
    looks.look()
    looks.caused()
    assert 0 < looks.due_in <= 1
    clock.time += 1
    assert looks.due_in <= 0
    looks.look()
    assert looks.due_in > 1
    assert looks.made == 2


def test_while_jobs_wait_it_looks_sooner(looks, clock):
    looks.found = [Looked(0, others_wait=True)]
    looks.look()
    looks.caused()
    assert 0 < looks.due_in < 0.2


def test_a_failed_look_is_made_up_for(looks, clock):
    looks.found = [ZeroDivisionError(), Looked(3, others_wait=False)]
    assert looks.look() == 0
    assert looks.has_cause
    assert 0 < looks.due_in <= 6
    assert looks.look() == 3
    assert not looks.has_cause
