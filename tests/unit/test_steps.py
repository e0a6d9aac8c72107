"""worker.steps without a database: names, values, where a step is refused, who calls it."""

import asyncio
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DataError, InterfaceError

from django_leasequeue import clock
from django_leasequeue.exceptions import JobCancelled, JobRunAborted, StepRefused
from django_leasequeue.fields import BrokenJSON
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker.steps import TryAgain
from tests.claims import claimed, context_of
from tests.helpers import in_thread, together

# An answer that never comes.
NEVER = object()


class Store:
    """Keeps steps in memory. `troubles`: what its next answers are instead."""

    def __init__(self, troubles=(), **recorded):
        self.recorded, self.troubles = recorded, list(troubles)
        self.asked, self.firsts = [], []

    def names(self, job):
        return self._answer("names", set(self.recorded))

    def result(self, job, name):
        return self._answer("result", self.recorded[name])

    def record(self, job, name, result, seconds, first):
        answer = self._answer("record", True)
        if answer.done() and answer.exception() is None and answer.result():
            self.recorded[name] = result
            self.firsts.append(first)
        return answer

    def _answer(self, asked, value):
        self.asked.append(asked)
        future = Future()
        if self.troubles:
            value = self.troubles.pop(0)
        if value is NEVER:
            return future
        if isinstance(value, Exception):
            future.set_exception(value)
        else:
            future.set_result(value)
        return future


def away(pause=0.0, is_away=True):
    error = TryAgain(pause, is_away)
    error.__cause__ = InterfaceError("the line is dead")
    return error


def context(store=None, **fields):
    made = context_of(claimed(**fields))
    made.step_store = store
    return made


def test_a_step_is_called_and_recorded():
    store = Store()
    one = context(store)
    assert one.step("a", lambda *args, **kwargs: [*args, kwargs], 1, name=2) == [
        1,
        {"name": 2},
    ]
    assert store.recorded == {"a": '[1,{"name":2}]'}
    assert one._job.has_steps
    assert store.asked == ["record"]  # of the first claim nothing can be there


def test_what_is_recorded_is_returned_without_a_call():
    store = Store(a={"paid": True}, b=None)
    one = context(store, claims=2)
    assert one.step("a", pytest.fail) == {"paid": True}
    assert one.step("b", pytest.fail) is None
    assert store.asked == ["names", "result", "result"]


def test_only_the_first_that_is_recorded_is_said_to_be():
    store = Store(a=1)
    one = context(store, claims=2)
    for name in "abc":
        one.step(name, int)
    assert store.firsts == [True, False]


def test_without_a_worker_steps_just_run():
    one = context()
    assert one.step("a", lambda: 1) == 1
    with pytest.raises(StepRefused):
        one.step("a", lambda: 1)


def test_a_name_is_used_once_in_a_run():
    one = context(Store())
    one.step("a", int)
    with pytest.raises(StepRefused, match=r"'a' of job 41 .* used already") as caught:
        one.step("a", pytest.fail)
    assert (caught.value.job_id, caught.value.name) == (41, "a")
    again = context(Store(a=1), claims=2)
    again.step("a", int)
    with pytest.raises(StepRefused):
        again.step("a", int)


def test_a_step_that_failed_may_be_tried_again():
    store = Store()
    one = context(store)
    with pytest.raises(ZeroDivisionError):
        one.step("a", lambda: 1 / 0)
    assert store.recorded == {}
    assert one.step("a", lambda: 1) == 1


@pytest.mark.parametrize(
    ("name", "error"),
    [("", ValueError), ("x" * 256, ValueError), ("a\0", ValueError), (7, TypeError)],
)
def test_names_that_are_none(name, error):
    with pytest.raises(error, match="name of a step"):
        context().step(name, pytest.fail)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"at": object()}, r"step 'a'\.at is of type object"),
        (float("nan"), "JSON does not know"),
        ("x" * 2**20, "longer than the 1,048,576 bytes"),
    ],
)
def test_what_is_not_small_json_is_told_once_it_has_run(value, why):
    store = Store()
    one = context(store)
    with pytest.raises((TypeError, ValueError), match=why) as caught:
        one.step("a", lambda: value)
    assert "would run again in a retry" in caught.value.__notes__[0]
    assert store.recorded == {}


def test_a_recorded_result_that_somebody_broke():
    one = context(Store(a=BrokenJSON("{")), claims=2)
    with pytest.raises(ValueError, match="step 'a' is no JSON"):
        one.step("a", pytest.fail)


def test_steps_in_steps():
    store = Store()
    one = context(store)
    outer = one.step("outer", lambda: one.step("inner", lambda: 1) + 1)
    assert outer == 2
    assert store.recorded == {"inner": "1", "outer": "2"}
    again = context(Store(inner=1), claims=2)
    assert again.step("outer", lambda: again.step("inner", pytest.fail) + 1) == 2


def test_steps_in_threads():
    """One object for all threads, and of one name only one call."""
    store = Store()
    one, calls = context(store), []

    def step(number):
        return one.step(f"s{number}", lambda: calls.append(number) or number)

    assert sorted(together(8, step)) == list(range(8))
    assert len(store.recorded) == 8

    def same(number):
        return one.step("same", lambda: calls.append("same"))

    ended = together(8, same, return_exceptions=True)
    assert [type(end) for end in ended].count(StepRefused) == 7
    assert calls.count("same") == 1


def test_it_looks_whether_the_run_still_counts():
    one = context(Store())
    one.cancel()
    with pytest.raises(JobCancelled):
        one.step("a", pytest.fail)
    one.lose("taken")
    with pytest.raises(JobRunAborted, match="taken"):
        one.step("b", pytest.fail)


def test_a_refused_record_ends_the_run():
    store = Store([JobRunAborted(41, "another has it")])
    one = context(store)
    with pytest.raises(JobRunAborted, match="another has it"):
        one.step("a", int)
    assert one.lost_why == "another has it"


def test_a_busy_row_is_tried_again():
    store = Store([False, False])
    context(store).step("a", int)
    assert store.asked == ["record"] * 3


def test_while_the_database_is_away_it_is_tried_again():
    store = Store([away()] * 5, a=1)
    one = context(store, claims=2)
    assert one.step("a", pytest.fail) == 1
    store.troubles = [away()] * 5
    one.step("b", int)
    assert store.recorded["b"] == "0"


def test_while_the_database_is_away_it_is_tried_until_the_lease_ends():
    store = Store([away(60)])
    one = context(store)

    def last_words():
        one._job.renewed_at = clock.now() - 1000

    with pytest.raises(JobRunAborted, match="not be renewed in time"):
        one.step("a", last_words)
    assert store.recorded == {}


def test_an_answer_that_never_comes_is_awaited_until_the_lease_ends():
    one = context(Store([NEVER]))
    started = threading.Event()

    def ask():
        with pytest.raises(JobRunAborted):
            one.step("a", started.set)

    with in_thread(ask):
        assert started.wait(60)
        one.lose("as the test wants it")


def test_what_a_server_that_answers_does_not_take_is_raised():
    """Else the run would ask for ever, since its lease is renewed."""
    store = Store([away(is_away=False)] * 3)
    with pytest.raises(InterfaceError, match="the line is dead"):
        context(store).step("a", int)
    with pytest.raises(DataError):
        context(Store([DataError("too long")])).step("a", int)


def test_an_atomic_task_has_no_steps():
    one = context(Store())
    one.task = TaskOptions(name="x", func=int, atomic=True)
    with pytest.raises(StepRefused, match="the task is atomic"):
        one.step("a", pytest.fail)


def test_a_process_that_the_task_forks_has_no_steps(monkeypatch):
    one = context(Store())
    one.step("a", int)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StepRefused, match="forked"):
        one.step("b", pytest.fail)


# --- In an event loop


async def aint():
    await asyncio.sleep(0)
    return 1


def test_astep_takes_either_kind():
    store = Store()
    one = context(store)

    async def task():
        here = threading.get_ident()
        assert await one.astep("a", aint) == 1
        assert await one.astep("b", threading.get_ident) != here
        assert await one.astep("c", lambda: aint()) == 1

    asyncio.run(task())
    assert set(store.recorded) == set("abc")


def test_astep_returns_what_is_recorded():
    one = context(Store(a=7), claims=2)
    assert asyncio.run(one.astep("a", pytest.fail)) == 7


def test_steps_beside_each_other():
    store = Store([away(), False, away()])
    one = context(store)

    async def task():
        names = [f"s{number}" for number in range(8)]
        return await asyncio.gather(*(one.astep(name, aint) for name in names))

    assert asyncio.run(task()) == [1] * 8
    assert len(store.recorded) == 8


def test_astep_does_not_hold_up_the_loop():
    """Others run while it waits for the database."""
    future, asked, store = Future(), asyncio.Event(), Store()
    one = context(store)

    def record(*_):
        asked.set()
        return future

    store.record = record

    async def task():
        waiting = asyncio.create_task(one.astep("a", aint))
        await asked.wait()
        assert not waiting.done()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(future.set_result, True)
        return await waiting

    assert asyncio.run(task()) == 1


def test_astep_is_cancelled_like_any_await():
    one = context(Store([NEVER]))

    async def task():
        waiting = asyncio.create_task(one.astep("a", aint))
        while not one.step_store.asked:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(task())


def test_the_wrong_door_is_told():
    one = context(Store())

    async def task():
        one.step("a", pytest.fail)

    with pytest.raises(SynchronousOnlyOperation, match=r"await context\.astep"):
        asyncio.run(task())
    with pytest.raises(TypeError, match="coroutine function"):
        one.step("a", aint)
    with pytest.raises(TypeError, match="of type coroutine"):
        one.step("a", lambda: aint())
