"""worker.slots: when the next child may start, and how many jobs it may take."""

from types import SimpleNamespace

import pytest

from django_leasequeue import clock
from django_leasequeue.worker.slots import ChildSlot, shares


def child(ran=0.0, name="a"):
    return SimpleNamespace(started_at=clock.now() - ran, name=name, is_idle=False)


def test_153_instant_deaths_are_followed_by_growing_pauses():
    slot = ChildSlot(1, None)
    pauses = [slot.lost(child()) for _ in range(12)]
    assert pauses[:5] == [0, 0.5, 1, 2, 4]
    assert pauses[-1] == 30
    assert pauses == sorted(pauses)


def test_a_child_that_ran_for_a_while_starts_the_row_anew():
    slot = ChildSlot(1, None)
    for _ in range(5):
        slot.lost(child())
    assert slot.lost(child(ran=61)) == 0
    assert slot.lost(child()) == 0.5


def test_children_that_never_became_ready_are_counted():
    slot = ChildSlot(1, None)
    slot.lost(child(name=None))
    slot.lost(child(name=None))
    assert slot.failed_starts == 2
    slot.lost(child())
    assert slot.failed_starts == 0


def test_a_child_that_can_not_be_started_is_tried_again_later():
    slot = ChildSlot(1, None)
    assert [slot.failed() for _ in range(3)] == [0.5, 1, 2]
    assert slot.failed_starts == 3


def test_a_seat_is_idle_if_its_child_is_or_none_will_come():
    slot = ChildSlot(1, None)
    assert slot.is_idle is False
    slot.child = child()
    assert slot.is_idle is False
    slot.child.is_idle = True
    assert slot.is_idle is True
    slot.child, slot.is_done = None, True
    assert slot.is_idle is True


@pytest.mark.parametrize(
    ("jobs", "processes", "expected"),
    [
        (None, 3, [None, None, None]),
        (10, 3, [4, 3, 3]),
        (2, 3, [1, 1]),
        (3, 3, [1, 1, 1]),
    ],
)
def test_max_jobs_are_shared_evenly(jobs, processes, expected):
    assert shares(jobs, processes) == expected
