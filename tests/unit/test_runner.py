"""worker.runner: whatever a task does becomes an outcome, and nothing but its run ends."""

import argparse
import asyncio
import gc
import json
import logging
import os
import sys
import threading
import weakref
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.utils.translation import gettext_lazy

from django_leasequeue import Discard, Retry, Snooze
from django_leasequeue.backoff import Fixed
from django_leasequeue.errors import errors_with
from django_leasequeue.outcomes import (
    Failed,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.worker import endings, runner
from tests.claims import NAME, WORKER, arun, claimed, context_of, registered, run
from tests.models import Effect

LOGGER = "django_leasequeue.worker"


def give(value):
    return value


def fail(message="as asked"):
    raise ValueError(message)


def raising(error):
    def task():
        raise error

    return task


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


# --- Success


def test_the_value_becomes_the_result_as_json():
    assert run(give, {"a": [1, None]}) == Succeeded('{"a":[1,null]}')


def test_no_value_is_null():
    assert run(lambda: None) == Succeeded("null")


def test_keyword_arguments_are_passed():
    def task(a, *, b):
        return [a, b]

    assert run(task, 1, kwargs='{"b": 2}') == Succeeded("[1,2]")


def test_the_context_is_the_first_argument():
    job = claimed(5)
    context = context_of(job)

    def task(context_given, number):
        return [context_given is context, number]

    outcome = run(task, job=job, context=context, options={"takes_context": True})
    assert outcome == Succeeded("[true,5]")


UNKEPT = {
    "object": object,
    "set": lambda: {1},
    "bytes": lambda: b"x",
    "model": lambda: Effect(name="x"),
    "lazy": lambda: gettext_lazy("x"),
    "huge": lambda: "x" * 100_000_000,
    "nan": lambda: float("nan"),
    "nul": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
}


@pytest.mark.parametrize("make", UNKEPT.values(), ids=UNKEPT)
def test_case_087_a_value_that_cannot_be_stored_is_a_success_without_result(
    make, caplog
):
    calls = []

    def task():
        calls.append(1)
        return make()

    assert run(task, max_attempts=3) == Succeeded(None)
    assert len(calls) == 1
    (warning,) = warnings_of(caplog)
    assert "Job 41 (tests.made) succeeds without a result" in warning


# --- Whatever a task raises


class OwnBase(BaseException):
    pass


def recurse():
    return recurse()


ODD = {
    "own": raising(OwnBase("odd")),
    "cancelled": raising(asyncio.CancelledError()),
    "generator exit": raising(GeneratorExit()),
    "recursion": recurse,
    "memory": raising(MemoryError()),
    "group": raising(ExceptionGroup("several", [ValueError("a"), KeyError("b")])),
    "base group": raising(BaseExceptionGroup("several", [OwnBase("a")])),
    "stop": raising(StopIteration(1)),
    "keyboard": raising(KeyboardInterrupt()),
}


@pytest.mark.parametrize("task", ODD.values(), ids=ODD)
def test_case_071_exceptions_outside_the_usual_class(task):
    outcome = run(task, max_attempts=2)
    assert isinstance(outcome, RetryLater)
    assert outcome.counted
    assert "Traceback" in outcome.error["traceback"]
    assert run(give, "next") == Succeeded('"next"')


EXITS = {
    "0": (lambda: sys.exit(0), "0"),
    "3": (lambda: sys.exit(3), "3"),
    "none": (lambda: sys.exit(), ""),
    "text": (lambda: sys.exit("no disk"), "no disk"),
    "argparse": (lambda: argparse.ArgumentParser().parse_args(["--none"]), "2"),
    "command": (lambda: call_command("shell", "-c", "raise SystemExit(4)"), "4"),
}


@pytest.mark.parametrize(("task", "message"), EXITS.values(), ids=EXITS)
def test_case_072_an_exit_is_a_failed_attempt_whatever_its_code(task, message):
    outcome = run(task, max_attempts=2)
    assert isinstance(outcome, RetryLater)
    assert outcome.counted
    assert outcome.error["exception_class"] == "builtins.SystemExit"
    assert outcome.error["message"] == message
    assert isinstance(run(task, max_attempts=2, attempts=1), Failed)


def test_case_073_exceptions_that_cannot_be_rebuilt():
    class NeedsTwo(Exception):
        def __init__(self, one, two):
            self.lock = threading.Lock()
            super().__init__(f"{one} and {two}")

    outcome = run(raising(NeedsTwo("one", "two")))
    assert outcome.error["exception_class"].endswith("NeedsTwo")
    assert outcome.error["message"] == "one and two"
    json.dumps(outcome.error)


def test_case_073_an_exception_from_a_module_of_the_job_only(tmp_path):
    (tmp_path / "only_here.py").write_text("class Odd(Exception): pass\n")

    def task():
        sys.path.insert(0, str(tmp_path))
        try:
            from only_here import Odd
        finally:
            sys.path.remove(str(tmp_path))
            sys.modules.pop("only_here", None)
        raise Odd("gone")

    outcome = run(task)
    assert outcome.error["exception_class"] == "only_here.Odd"
    assert outcome.error["message"] == "gone"


def test_case_073_an_exception_that_cannot_be_printed():
    class Silent(Exception):
        def __str__(self):
            raise SystemExit("no text")

    assert "Silent" in run(raising(Silent())).error["exception_class"]


def chained():
    error = ValueError("0")
    for number in range(1, 200):
        later = ValueError(str(number))
        later.__cause__ = error
        error = later
    raise error


@pytest.mark.parametrize(
    "task", [raising(ValueError("x" * 20_000_000)), chained], ids=["message", "chain"]
)
def test_case_076_very_long_error_text_is_cut(task):
    outcome = run(task)
    assert isinstance(outcome, Failed)
    assert len(json.dumps(outcome.error)) < 64_000


def test_the_entry_tells_who_when_and_which_attempt():
    job = claimed(attempts=1, max_attempts=2)
    error = run(fail, job=job).error
    assert error["exception_class"] == "builtins.ValueError"
    assert error["message"] == "as asked"
    assert error["worker"] == WORKER
    assert error["attempt"] == 2
    assert error["at"].startswith("2026-01-02T03:0")


def test_what_the_task_held_is_freed_without_a_collection():
    class Held:
        pass

    seen = []

    def task():
        held = Held()
        seen.append(weakref.ref(held))
        raise ValueError

    gc.disable()
    try:
        run(task)
        assert seen[0]() is None
    finally:
        gc.enable()


def test_a_fault_of_the_worker_itself_is_a_failed_attempt(monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(endings, "success", broken)
    outcome = run(give, 1, max_attempts=2)
    assert isinstance(outcome, RetryLater)
    assert outcome.error["message"] == "a fault of ours"
    assert "could not be run" in caplog.text
    assert isinstance(arun(agive, 1), Failed)


# --- Attempts and delays


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_case_141_a_limit_of_n_is_n_runs(limit):
    outcomes = [run(fail, attempts=n, max_attempts=limit) for n in range(limit)]
    assert [type(o) for o in outcomes] == [RetryLater] * (limit - 1) + [Failed]
    assert all(outcome.counted for outcome in outcomes)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_case_141_a_limit_of_n_lost_workers_is_n_more_runs(limit):
    calls = []
    for recoveries in range(limit + 2):
        outcome = run(
            lambda: calls.append(1),
            recoveries=recoveries,
            lost_alone=recoveries,
            options={"max_recoveries": limit},
        )
    assert len(calls) == limit + 1
    assert isinstance(outcome, Failed)
    assert outcome.counted is False


def test_with_a_limit_of_none_a_loss_in_company_ends_a_job_too():
    outcome = run(give, 1, recoveries=1, options={"max_recoveries": 0})
    assert isinstance(outcome, Failed)


def test_the_setting_limits_lost_workers(settings):
    settings.LEASEQUEUE = {"QUEUES": {"default": {"MAX_RECOVERIES": 1}}}
    assert run(give, 1, recoveries=1) == Succeeded("1")
    assert run(give, 1, recoveries=5, lost_alone=1) == Succeeded("1")
    outcome = run(give, 1, recoveries=2, lost_alone=2, max_attempts=5)
    assert isinstance(outcome, Failed)
    assert outcome.error["exception_class"].endswith("WorkersLost")
    assert "2 workers were lost" in outcome.error["message"]
    assert "allows 1" in outcome.error["message"]
    assert "job.retry()" in outcome.error["message"]


def test_the_backoff_of_the_task_comes_before_that_of_the_queue(settings):
    settings.LEASEQUEUE = {"QUEUES": {"default": {"BACKOFF": Fixed(7)}}}
    assert run(fail, max_attempts=2).delay == timedelta(seconds=7)
    options = {"backoff": lambda attempt: attempt * 10}
    outcome = run(fail, attempts=1, max_attempts=3, options=options)
    assert outcome.delay == timedelta(seconds=20)


@pytest.mark.parametrize("backoff", [lambda n: 1 / 0, lambda n: "soon"], ids=["a", "b"])
def test_a_backoff_that_fails_gives_way_to_the_default(backoff, caplog):
    outcome = run(fail, max_attempts=2, options={"backoff": backoff})
    assert timedelta(0) < outcome.delay <= timedelta(seconds=1)
    assert outcome.error["message"] == "as asked"
    assert "waits by the default backoff" in caplog.text


def test_retry_chooses_its_delay():
    outcome = run(raising(Retry(90, reason="busy")), max_attempts=2)
    assert outcome.delay == timedelta(seconds=90)
    assert outcome.counted
    assert outcome.error["message"] == "busy"


def test_retry_without_a_delay_takes_the_backoff():
    outcome = run(raising(Retry()), max_attempts=2, options={"backoff": Fixed(5)})
    assert outcome.delay == timedelta(seconds=5)


def test_retry_fails_the_job_in_the_last_attempt():
    assert isinstance(run(raising(Retry(90)), attempts=1, max_attempts=2), Failed)


RUBBISH = [-1, float("nan"), "soon", None, True, timedelta(seconds=-1), 1e300]


@pytest.mark.parametrize("delay", RUBBISH, ids=repr)
def test_snooze_with_a_delay_that_is_none_is_a_failed_attempt(delay):
    outcome = run(raising(Snooze(delay)), max_attempts=2)
    assert isinstance(outcome, RetryLater)
    assert outcome.counted
    assert outcome.error["message"].startswith("The delay of Snooze must be")


@pytest.mark.parametrize("delay", [d for d in RUBBISH if d is not None], ids=repr)
def test_retry_with_a_delay_that_is_none_takes_the_backoff(delay):
    outcome = run(raising(Retry(delay)), max_attempts=2, options={"backoff": Fixed(5)})
    assert outcome.delay == timedelta(seconds=5)
    assert outcome.error["message"].startswith("The delay of Retry must be")


def test_discard_fails_the_job_whatever_is_left():
    outcome = run(raising(Discard("no such order")), max_attempts=5)
    assert isinstance(outcome, Failed)
    assert outcome.counted
    assert outcome.error["message"] == "no such order"


def test_discard_on_fails_the_job_at_once():
    options = {"discard_on": (LookupError,)}
    assert isinstance(run(raising(KeyError()), max_attempts=5, options=options), Failed)
    assert isinstance(run(fail, max_attempts=5, options=options), RetryLater)


def test_retry_on_retries_nothing_else():
    options = {"retry_on": (OSError,)}
    down = raising(ConnectionError())
    assert isinstance(run(down, max_attempts=5, options=options), RetryLater)
    assert isinstance(run(fail, max_attempts=5, options=options), Failed)
    # What the task asks for itself is not an error that it met.
    assert isinstance(
        run(raising(Retry()), max_attempts=5, options=options), RetryLater
    )
    assert isinstance(run(raising(Snooze(1)), max_attempts=5, options=options), Snoozed)


def test_discard_on_comes_before_retry_on():
    options = {"retry_on": (OSError,), "discard_on": (FileNotFoundError,)}
    task = raising(FileNotFoundError())
    assert isinstance(run(task, max_attempts=5, options=options), Failed)


def test_case_145_postponing_is_no_attempt():
    job = claimed(max_attempts=3)
    for _ in range(10):
        assert run(raising(Snooze(60)), job=job) == Snoozed(timedelta(seconds=60))
    assert isinstance(run(fail, job=job), RetryLater)
    assert run(give, job=claimed(1, attempts=1, max_attempts=3)) == Succeeded("1")


# --- A job that can't be called


def unknown(errors, **fields):
    job = claimed(task="gone.away", errors_text=json.dumps(errors), **fields)
    return runner.run(job, context_of(job))


def test_case_079_an_unknown_task_waits_ten_times_and_fails():
    errors, outcomes = [], []
    for _ in range(11):
        outcomes.append(unknown(errors, max_attempts=5))
        errors = errors_with(errors, outcomes[-1].error, 1)
    assert [type(o) for o in outcomes] == [RetryLater] * 10 + [Failed]
    assert not any(outcome.counted for outcome in outcomes)
    assert {o.delay for o in outcomes[:10]} == {timedelta(seconds=30)}
    assert errors[0]["times"] == 11
    assert "No task is registered as 'gone.away'" in errors[0]["message"]
    assert run(give, "next") == Succeeded('"next"')


@pytest.mark.parametrize("name", ["__main__.job", "os.system", "tests.tasks", "", "\0"])
def test_case_079_nothing_is_imported_or_called_because_a_row_names_it(name):
    job = claimed("touch /tmp/called", task=name)
    outcome = runner.run(job, context_of(job))
    assert outcome.error["exception_class"].endswith("UnknownTask")


def test_case_079_a_new_round_waits_anew():
    errors = []
    for _ in range(11):
        errors = errors_with(errors, unknown(errors).error, 10)
    assert isinstance(unknown(errors, round=2), RetryLater)


def test_an_alias_is_known():
    with registered(give, aliases=("old.name",)):
        job = claimed(1, task="old.name")
        assert runner.run(job, context_of(job)) == Succeeded("1")


BROKEN = {
    "no json": ({"args": "[1,"}, "args are not JSON"),
    "nan": ({"args": "[NaN]"}, "args are not JSON"),
    "null": ({"args": None}, "args are not JSON"),
    "deep": ({"args": "[" * 100_000}, "args are not JSON"),
    "object for list": ({"args": "{}"}, "args are a dict, not a list"),
    "list for object": ({"kwargs": "[]"}, "kwargs are a list, not a dict"),
    "missing": ({"args": "[]"}, "missing a required argument: 'a'"),
    "extra": ({"args": "[1,2,3]"}, "too many positional arguments"),
    "unknown": ({"kwargs": '{"c": 1}'}, "unexpected keyword argument 'c'"),
}


@pytest.mark.parametrize(("columns", "message"), BROKEN.values(), ids=BROKEN)
def test_case_081_a_call_that_cannot_be_decoded_or_bound(columns, message):
    calls = []

    def task(a, b=2):
        calls.append(a)

    fields = {"args": "[1]", "kwargs": "{}", **columns}
    outcome = run(task, max_attempts=2, options={"retry_on": (OSError,)}, **fields)
    assert isinstance(outcome, RetryLater)
    assert outcome.counted
    assert message in outcome.error["message"]
    assert isinstance(run(task, attempts=1, max_attempts=2, **fields), Failed)
    assert calls == []


def test_case_081_the_context_is_not_among_the_arguments():
    options = {"takes_context": True}
    outcome = run(lambda context, a: None, options=options)
    assert "missing a required argument: 'a'" in outcome.error["message"]


def generator():
    yield 1


async def async_generator():
    yield 1


@pytest.mark.parametrize(
    ("task", "what"),
    [
        (generator, "a generator"),
        (async_generator, "an async generator"),
        (lambda: agive(1), "a coroutine"),
    ],
    ids=["generator", "async generator", "coroutine"],
)
def test_work_that_nobody_has_done_is_no_success(task, what):
    outcome = run(task)
    assert isinstance(outcome, Failed)
    assert f"The task returned {what}" in outcome.error["message"]


# --- A run that no longer counts


def check(context):
    context.check()


def test_a_run_that_stops_for_a_lost_lease_is_no_failure():
    job = claimed()
    context = context_of(job)
    context.lose("another worker has claimed it since")
    options = {"takes_context": True}
    assert run(check, job=job, context=context, options=options) == Released(lost=True)


def test_aborting_without_a_lost_lease_is_an_error_like_any_other():
    from django_leasequeue.exceptions import JobRunAborted

    assert isinstance(run(raising(JobRunAborted(41, "for fun"))), Failed)


def test_a_run_that_ends_after_a_lost_lease_yields_what_it_came_to():
    # Settle decides: the lease may still be ours after an outage.
    job = claimed(1)
    context = context_of(job)
    context.lose("it could not be renewed in time")
    assert run(give, job=job, context=context) == Succeeded("1")


def test_case_094_a_run_inside_a_run_leaves_the_outer_one_alone():
    def outer(context):
        before = (context.job_id, context.attempt, context.fence)
        inner = run(fail, id=99, attempts=4, max_attempts=9, claims=7)
        assert isinstance(inner, RetryLater)
        assert inner.error["attempt"] == 5
        return before == (context.job_id, context.attempt, context.fence)

    with registered(outer, name="tests.outer", takes_context=True):
        job = claimed(task="tests.outer", id=1)
        assert runner.run(job, context_of(job)) == Succeeded("true")


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(("end", "status"), [("exit", 7), ("return", 0), ("raise", 1)])
def test_a_copy_that_the_task_forked_does_not_come_back(end, status, is_async):
    def task():
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if end == "exit":
            sys.exit(7)
        if end == "raise":
            raise ValueError

    async def atask():
        return task()

    before = os.getpid()
    outcome = run(atask if is_async else task)
    assert os.getpid() == before, "the copy came back"
    assert outcome == Succeeded(str(status))


# --- async def


async def agive(value):
    await asyncio.sleep(0)
    return value


async def afail():
    await asyncio.sleep(0)
    raise ValueError("as asked")


@pytest.mark.parametrize("by", [run, arun])
def test_async_success(by):
    assert by(agive, [1]) == Succeeded("[1]")


@pytest.mark.parametrize("by", [run, arun])
def test_async_failure(by):
    outcome = by(afail, max_attempts=2)
    assert isinstance(outcome, RetryLater)
    assert outcome.error["message"] == "as asked"
    assert "afail" in outcome.error["traceback"]


@pytest.mark.parametrize("by", [run, arun])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        GeneratorExit(),
        OwnBase(),
        ExceptionGroup("several", [ValueError()]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_case_071_case_072_in_async_tasks(error, by):
    async def task():
        await asyncio.sleep(0)
        raise error

    outcome = by(task, max_attempts=2)
    assert isinstance(outcome, RetryLater)
    assert outcome.error["exception_class"].endswith(type(error).__name__)


def test_a_plain_task_by_the_event_loop():
    assert arun(give, 1) == Succeeded("1")


def test_async_unknown_task():
    job = claimed(task="gone.away")
    outcome = asyncio.run(runner.arun(job, context_of(job)))
    assert outcome.delay == timedelta(seconds=30)


def test_one_async_run_that_exits_leaves_the_others_alone():
    async def both():
        exits, goes_on = asyncio.Event(), asyncio.Event()

        async def exit_it():
            exits.set()
            sys.exit(3)

        async def go_on():
            await exits.wait()
            await goes_on.wait()
            return "done"

        jobs = claimed(task="tests.exit"), claimed(task="tests.on")
        with (
            registered(exit_it, name="tests.exit"),
            registered(go_on, name="tests.on"),
        ):
            other = asyncio.create_task(runner.arun(jobs[1], context_of(jobs[1])))
            first = await runner.arun(jobs[0], context_of(jobs[0]))
            goes_on.set()
            return first, await other

    first, other = asyncio.run(both())
    assert isinstance(first, Failed)
    assert other == Succeeded('"done"')


def test_a_caller_that_cancels_gets_no_outcome():
    async def cancelled():
        begun, cleaned = asyncio.Event(), []

        async def task():
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append(True)

        with registered(task):
            job = claimed()
            running = asyncio.create_task(runner.arun(job, context_of(job)))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        return cleaned

    assert asyncio.run(cancelled()) == [True]


def test_a_run_cancelled_before_it_began_has_no_outcome():
    async def cancelled():
        with registered(agive):
            job = claimed(1)
            running = asyncio.create_task(runner.arun(job, context_of(job)))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(cancelled())


def test_a_task_that_ends_well_though_cancelled_has_an_outcome():
    async def stubborn():
        begun = asyncio.Event()

        async def task():
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "saved"

        with registered(task):
            job = claimed()
            running = asyncio.create_task(runner.arun(job, context_of(job)))
            await begun.wait()
            running.cancel()
            return await running

    assert asyncio.run(stubborn()) == Succeeded('"saved"')


def test_a_task_that_cancels_itself_has_failed():
    async def task():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    outcome = arun(task, max_attempts=2)
    assert isinstance(outcome, RetryLater)
    assert outcome.error["exception_class"].endswith("CancelledError")


def test_each_async_run_has_a_thread_of_its_own_for_its_connections():
    async def threads():
        together = asyncio.Barrier(2)

        async def task():
            ident = await sync_to_async(threading.get_ident)()
            await together.wait()
            return ident

        with registered(task):
            jobs = [claimed(), claimed()]
            runs = (runner.arun(job, context_of(job)) for job in jobs)
            return await asyncio.gather(*runs)

    first, second = asyncio.run(threads())
    assert first != second


def test_an_async_run_that_uses_no_connection_starts_no_thread():
    async def task():
        return sorted(thread.ident for thread in threading.enumerate())

    # Of other tests some may end meanwhile.
    before = {thread.ident for thread in threading.enumerate()}
    assert set(json.loads(arun(task).result)) <= before


def test_the_name_in_the_tests_is_not_left_registered():
    job = claimed(task=NAME)
    assert isinstance(runner.run(job, context_of(job)), RetryLater)
