"""The tests' own tools fail when they should."""

import threading

import pytest

from tests import helpers


def test_together_returns_results_in_order():
    assert helpers.together(4, lambda number: number * number) == [0, 1, 4, 9]


def test_together_raises_what_a_call_raised():
    def second_fails(number):
        if number == 1:
            raise KeyError("second")

    with pytest.raises(KeyError, match="second"):
        helpers.together(3, second_fails)


def test_together_may_return_errors():
    results = helpers.together(2, lambda number: 1 // number, return_exceptions=True)
    assert isinstance(results[0], ZeroDivisionError)
    assert results[1] == 1


def test_together_names_what_hangs():
    release = threading.Event()
    with pytest.raises(AssertionError, match=r"release\.wait"):
        helpers.together(2, lambda number: number or release.wait(60), timeout=1)
    release.set()


def test_in_thread_raises_at_the_end():
    with pytest.raises(KeyError), helpers.in_thread(lambda: {}["missing"]):
        pass


def test_eventually_returns_the_first_true_value():
    values = iter([0, None, 7, 8])
    assert helpers.eventually(lambda: next(values)) == 7


def test_eventually_tells_the_last_value():
    with pytest.raises(AssertionError, match="last seen: 'half done'"):
        # Never true in time, however slow the machine: an empty deadline is one look.
        helpers.eventually(lambda: _Falsy("half done"), timeout=0)


def test_announcement_is_heard_and_answered(announcement):
    from tests.tasks import announce_then_wait

    function = getattr(announce_then_wait, "func", announce_then_wait)
    with helpers.in_thread(lambda: function(announcement.path, "here")) as task:
        assert announcement.wait().endswith(" here")
        assert announcement.is_silent()
        assert task.is_running
        announcement.release()
        assert task.result() == "here"


def test_paused_holds_one_call():
    class Owner:
        def act(self):
            return "done"

    with helpers.paused(Owner, "act") as pause, helpers.in_thread(Owner().act) as first:
        pause.wait()
        assert Owner().act() == "done"
        assert first.is_running
        pause.resume()
        assert first.result() == "done"


class _Falsy(str):
    def __bool__(self):
        return False
