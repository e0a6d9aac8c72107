"""worker.slots: when the next child may start, and how many jobs it may take."""

from types import SimpleNamespace

import pytest

from django_leasequeue import clock
from django_leasequeue.worker.slots import ChildSlot, shares
from tests.workers import options


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


def test_one_that_is_replaced_stays_beside_the_next():
    """A drain waits for its jobs, and until what it left when it died is given back."""
    slot = ChildSlot(1, None)
    slot.start_at, slot.child = None, child()
    old = slot.child
    slot.retire()
    assert (slot.retired, slot.child, old.was_replaced) == (old, None, True)
    assert slot.start_at <= clock.now()
    slot.child = child()
    slot.child.is_idle = True
    assert slot.is_idle is False
    slot.retired, slot.returning = None, 1
    assert slot.is_idle is False
    slot.returning = 0
    assert slot.is_idle is True


def test_children_are_not_replaced_at_one_time():
    slot = ChildSlot(1, None)
    numbers = {slot.options(options(max_jobs=100)).max_jobs for _ in range(200)}
    assert len(numbers) > 5
    assert min(numbers) >= 80 and max(numbers) <= 100
    assert {slot.options(options(max_jobs=1)).max_jobs for _ in range(9)} == {1}
    assert slot.options(options()).max_jobs is None
    aside = ChildSlot(2, None, is_aside=True)
    assert aside.options(options(max_jobs=1)).max_jobs is None


@pytest.mark.parametrize(
    ("jobs", "processes", "expected"),
    [
        (None, 3, [None, None, None]),
        (10, 3, [4, 3, 3]),
        (2, 3, [1, 1]),
        (3, 3, [1, 1, 1]),
    ],
)
def test_stop_after_are_shared_evenly(jobs, processes, expected):
    assert shares(jobs, processes) == expected
