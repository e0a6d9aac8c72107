"""Time limits: when a run has timed out, and that JobTimeout comes nowhere but in its task."""

import asyncio
import contextlib
import json
import sys
import threading
from datetime import timedelta

import pytest

from django_leasequeue import Discard, Retry, Snooze, clock
from django_leasequeue.backoff import Fixed
from django_leasequeue.exceptions import JobTimeout
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Released,
    RetryLater,
    Succeeded,
)
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker import interruptions, runner
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.deadlines import Deadlines
from django_leasequeue.worker.interruptions import OfThread
from django_leasequeue.worker.lease_table import LeaseTable
from django_leasequeue.worker.limit import Limit
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.report_handler import ReportHandler
from django_leasequeue.worker.reports import Reports
from django_leasequeue.worker.slots import ChildSlot
from django_leasequeue.worker.timed import GRACE, TimedRun
from tests.claims import arun, claimed, context_of, registered, run
from tests.helpers import DEADLINE, Background, eventually, in_thread, paused

TIMED_OUT = "django_leasequeue.exceptions.JobTimeout"
# Seconds. Long enough for nobody to be past it before the task has begun.
SOON = 0.05
# The same where the task has to be interrupted in the midst of it.
BEGUN = 0.3
LATER = 3600.0


@pytest.fixture
def deadlines():
    made = Deadlines()
    yield made
    made.close()


def limited(job, seconds, deadlines=None, **reports):
    """The context of a run with a time limit."""
    limit = Limit(seconds, deadlines, **reports)
    return JobContext(job, None, threading.Event(), limit)


def run_limited(function, seconds, deadlines=None, *, by=run, options=None, **fields):
    job = claimed(**fields)
    options = {"timeout": seconds, **(options or {})}
    context = limited(job, seconds, deadlines)
    return by(function, options=options, job=job, context=context)


def loop():
    until = clock.now() + DEADLINE
    while clock.now() < until:
        pass
    raise AssertionError("nothing came")


def error_of(outcome):
    assert outcome.error["exception_class"] == TIMED_OUT
    return outcome.error


# --- The options


def options(**given):
    return TaskOptions(name="tests.made", func=print, **given)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, None), (30, 30.0), (0.5, 0.5), (timedelta(minutes=2), 120.0)],
)
def test_a_timeout_is_seconds_or_a_timedelta(given, kept):
    made = options(timeout=given)
    assert (made.timeout, made.on_timeout) == (kept, "retry")
    assert type(made.timeout) is type(kept)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"timeout": 0}, ValueError, "more than 0 seconds"),
        ({"timeout": -1}, ValueError, "timeout must be at least 0"),
        ({"timeout": float("nan")}, ValueError, "timeout must be a finite"),
        ({"timeout": "30"}, TypeError, "timeout must be seconds"),
        ({"timeout": True}, TypeError, "timeout must be seconds"),
        ({"on_timeout": "kill"}, ValueError, "'retry' or 'fail', not 'kill'"),
        ({"on_timeout": None}, ValueError, "'retry' or 'fail', not None"),
    ],
)
def test_other_values_are_refused_at_once(given, error, message):
    with pytest.raises(error, match=message):
        options(**given)


# --- The deadline


def test_a_run_without_a_timeout_has_no_deadline():
    job = claimed()
    context = context_of(job)
    assert run(lambda: None, job=job, context=context) == Succeeded("null")
    assert context.deadline is None


@pytest.mark.parametrize("by", [run, arun])
def test_the_deadline_is_set_when_the_task_is_called(by):
    job, seen = claimed(), []
    context = limited(job, LATER)
    assert context.deadline is None

    def task(context):
        seen.append(context.deadline)

    async def atask(context):
        seen.append(context.deadline)

    before = clock.now()
    function = task if by is run else atask
    by(function, options={"takes_context": True}, job=job, context=context)
    assert before + LATER <= seen[0] <= clock.now() + LATER


def test_a_context_made_without_a_worker_has_the_tasks_own_timeout():
    context = JobContext(claimed(), options(timeout=30), threading.Event())
    context.limit.start()
    assert context.deadline <= clock.now() + 30


def test_start_and_end_are_reported_around_the_call():
    told, job = [], claimed()
    context = limited(
        job, LATER, started=lambda at: told.append(at), ended=lambda: told.append("end")
    )
    run(lambda: told.append("task"), job=job, context=context)
    assert told == [context.deadline, "task", "end"]


# --- Timed out


def test_a_loop_is_interrupted(deadlines):
    error = error_of(run_limited(loop, BEGUN, deadlines))
    assert error["message"] == "The run took longer than its timeout of 0.3 s."
    assert "in loop" in error["traceback"]
    assert error["attempt"] == 1


def test_a_coroutine_is_cancelled(deadlines):
    async def wait():
        await asyncio.Event().wait()

    for by in (arun, run):
        error = error_of(run_limited(wait, BEGUN, deadlines, by=by))
        assert "in wait" in error["traceback"]


def test_other_coroutines_go_on(deadlines):
    async def wait():
        await asyncio.Event().wait()

    async def work(context):
        while waiting and context.deadline is None:
            await asyncio.sleep(0)
        return "done"

    waiting = [True]

    async def both():
        first = runner.arun(jobs[0], limited(jobs[0], SOON, deadlines))
        second = asyncio.create_task(runner.arun(jobs[1], context_of(jobs[1])))
        outcomes = [await first]
        waiting.clear()
        return [*outcomes, await second]

    jobs = [claimed(task="tests.wait"), claimed(task="tests.work")]
    with (
        registered(wait, name="tests.wait", timeout=SOON),
        registered(work, name="tests.work", takes_context=True),
    ):
        first, second = asyncio.run(both())
    error_of(first)
    assert second == Succeeded('"done"')


def test_it_is_an_attempt_and_runs_again_after_the_backoff(deadlines):
    outcome = run_limited(
        loop, SOON, deadlines, options={"backoff": Fixed(7, jitter=0)}, max_attempts=2
    )
    assert isinstance(outcome, RetryLater)
    assert (outcome.delay, outcome.counted) == (timedelta(seconds=7), True)
    error_of(outcome)


def test_the_last_attempt_fails(deadlines):
    outcome = run_limited(loop, SOON, deadlines, attempts=1, max_attempts=2)
    assert isinstance(outcome, Failed)


def test_on_timeout_fail_fails_whatever_attempts_are_left(deadlines):
    given = {"on_timeout": "fail"}
    outcome = run_limited(loop, SOON, deadlines, options=given, max_attempts=5)
    assert isinstance(outcome, Failed)
    assert outcome.counted


@pytest.mark.parametrize(
    "given", [{"discard_on": (JobTimeout,)}, {"retry_on": (OSError,)}]
)
def test_on_timeout_alone_says_what_follows(deadlines, given):
    outcome = run_limited(loop, SOON, deadlines, options=given, max_attempts=2)
    assert isinstance(outcome, RetryLater)


def overtime(then):
    """A task that takes its time, cleans up, and then does something else."""

    def task():
        try:
            loop()
        except JobTimeout:
            return then()

    return task


def raising(error):
    def act():
        raise error

    return act


@pytest.mark.parametrize(
    "then",
    [
        lambda: "a late result",
        raising(ValueError("while cleaning up")),
        raising(Snooze(1)),
        raising(Retry(1)),
        raising(Discard()),
        raising(SystemExit()),
    ],
)
def test_whatever_follows_it_has_timed_out(deadlines, then):
    outcome = run_limited(overtime(then), SOON, deadlines, max_attempts=2)
    assert isinstance(outcome, RetryLater)
    error_of(outcome)


def test_an_error_that_came_of_it_is_told_as_well(deadlines):
    task = overtime(raising(ValueError("while cleaning up")))
    error = error_of(run_limited(task, BEGUN, deadlines))
    assert "ValueError: while cleaning up" in error["traceback"]
    assert "in loop" in error["traceback"]


@pytest.mark.parametrize("by", [run, arun])
def test_a_late_result_does_not_count_where_nothing_could_interrupt(by):
    """As in a C call that holds the interpreter, or without a worker."""
    job = claimed()
    context = limited(job, SOON)

    def task():
        eventually(lambda: clock.now() > context.deadline)
        return "late"

    async def atask():
        return task()

    function = task if by is run else atask
    error_of(by(function, options={"timeout": SOON}, job=job, context=context))


def test_a_lost_lease_comes_first(deadlines):
    job = claimed()
    context = limited(job, BEGUN, deadlines)

    def task(context):
        try:
            loop()
        except JobTimeout:
            context.lose("another worker has claimed it")
            context.check()

    given = {"timeout": BEGUN, "takes_context": True}
    assert run(task, options=given, job=job, context=context) == Released(lost=True)


def test_a_cancel_comes_first(deadlines):
    job = claimed()
    context = limited(job, BEGUN, deadlines)

    def task(context):
        try:
            loop()
        except JobTimeout:
            context.cancel()
            context.check()

    given = {"timeout": BEGUN, "takes_context": True}
    assert run(task, options=given, job=job, context=context) == Cancelled()


@pytest.mark.parametrize("seconds", [None, LATER])
def test_a_jobtimeout_of_the_tasks_own_is_an_error_like_any_other(deadlines, seconds):
    given = {"discard_on": (JobTimeout,), "timeout": seconds}
    task = raising(JobTimeout())
    outcome = run_limited(task, seconds, deadlines, options=given, max_attempts=2)
    assert isinstance(outcome, Failed)
    outcome = run_limited(task, seconds, deadlines, max_attempts=2)
    assert isinstance(outcome, RetryLater)


def test_a_caller_that_cancels_the_run_still_gets_its_way(deadlines):
    """As at a worker's stop: no outcome."""

    async def task():
        started.set()
        await asyncio.Event().wait()

    async def main():
        running = asyncio.create_task(runner.arun(job, limited(job, LATER, deadlines)))
        await started.wait()
        running.cancel()
        await running

    job, started = claimed(), asyncio.Event()
    with (
        registered(task, timeout=LATER),
        pytest.raises(asyncio.CancelledError),
    ):
        asyncio.run(main())


# --- Nothing but the task


@pytest.fixture
def restless():
    """Threads take turns at almost every line, so that a strike comes at any of them."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def spin(until):
    # A loop of its own: see interruptions._loop.
    while clock.now() < until:
        pass


def count(seen):
    for _ in range(300):
        seen[0] += 1


def work(seen):
    """Python code in which an exception that comes too late would surface."""
    try:
        count(seen)
    except JobTimeout as error:
        seen.append(error)


def test_the_race_between_deadline_and_end_hits_nobody_else(deadlines, restless):
    """Blocks that end at their deadline, a little before and a little after."""
    struck, seen = 0, [0]
    for number in range(3000):
        deadline = clock.now() + 0.0003
        until = deadline + (number % 40 - 20) * 5e-6
        try:
            with OfThread(deadlines, deadline):
                spin(until)
        except JobTimeout:
            struck += 1
        work(seen)
    assert len(seen) == 1
    # Both ends of the race were seen, else it was none.
    assert 0 < struck < 3000


def test_runs_that_end_at_their_deadline_leave_the_next_one_alone(deadlines, restless):
    def until_the_deadline(context):
        number[0] += 1
        spin(context.deadline + (number[0] % 40 - 20) * 5e-6)
        return "in time"

    def next_one():
        for _ in range(300):
            pass
        return "untouched"

    number, outcomes = [0], []
    given = {"timeout": 0.0003, "takes_context": True, "name": "tests.timed"}
    with registered(until_the_deadline, **given), registered(next_one):
        for _ in range(1500):
            job, after = claimed(task="tests.timed"), claimed()
            outcomes.append(runner.run(job, limited(job, 0.0003, deadlines)))
            assert runner.run(after, context_of(after)) == Succeeded('"untouched"')
    in_time = [outcome for outcome in outcomes if outcome == Succeeded('"in time"')]
    for outcome in outcomes:
        if outcome not in in_time:
            error_of(outcome)
    assert 0 < len(in_time) < len(outcomes)


def test_several_threads_race_with_one_watcher(deadlines, restless):
    def race():
        seen = [0]
        for number in range(300):
            deadline = clock.now() + 0.001
            try:
                with OfThread(deadlines, deadline):
                    spin(deadline + (number % 20 - 10) * 1e-5)
            except JobTimeout:
                pass
            work(seen)
        return len(seen)

    racers = [Background(race) for _ in range(4)]
    for racer in racers:
        racer.thread.start()
    assert [racer.result() for racer in racers] == [1] * 4


def test_coroutines_that_end_at_their_deadline_leave_the_next_one_alone(
    deadlines, restless
):
    async def until_the_deadline(context):
        number[0] += 1
        until = context.deadline + (number[0] % 40 - 20) * 5e-6
        while clock.now() < until:
            await asyncio.sleep(0)

    async def next_one():
        for _ in range(3):
            await asyncio.sleep(0)
        return "untouched"

    async def both():
        for _ in range(300):
            job, after = claimed(task="tests.timed"), claimed()
            outcomes.append(await runner.arun(job, limited(job, 0.001, deadlines)))
            done = await runner.arun(after, context_of(after))
            assert done == Succeeded('"untouched"')

    number, outcomes = [0], []
    given = {"timeout": 0.001, "takes_context": True, "name": "tests.timed"}
    with registered(until_the_deadline, **given), registered(next_one):
        asyncio.run(both())
    kinds = {type(outcome) for outcome in outcomes}
    assert kinds == {Succeeded, Failed}


def test_one_that_the_task_swallowed_leaves_nothing_behind(deadlines):
    seen = [0]
    with OfThread(deadlines, clock.now() + SOON), pytest.raises(JobTimeout):
        loop()
    work(seen)
    assert len(seen) == 1


def test_a_block_does_not_end_in_the_middle_of_a_strike(deadlines):
    """The strike has been decided; if the block ended now, it would hit what follows."""
    entered, leave, seen, blocks = threading.Event(), threading.Event(), [0], []

    def work_then_more():
        blocks.append(OfThread(deadlines, clock.now() + LATER))
        with contextlib.suppress(JobTimeout), blocks[0]:
            entered.set()
            leave.wait(DEADLINE)
        work(seen)

    def is_ending():
        frame = sys._current_frames()[worker.thread.ident]
        return frame.f_code.co_name == "__exit__"

    with (
        paused(interruptions, "_raise_in") as strike,
        in_thread(work_then_more) as worker,
    ):
        assert entered.wait(DEADLINE)
        with in_thread(blocks[0].strike):
            strike.wait()
            leave.set()
            eventually(is_ending)
            strike.resume()
    assert len(seen) == 1


def test_a_strike_after_the_end_does_nothing(deadlines):
    limit = OfThread(deadlines, clock.now() + LATER)
    with limit:
        pass
    limit.strike()
    seen = [0]
    work(seen)
    assert len(seen) == 1


# --- The thread that strikes


class Item:
    def __init__(self, deadline):
        self.deadline, self.struck = deadline, threading.Event()

    def strike(self):
        self.struck.set()


def test_each_is_struck_once_its_time_has_come(deadlines):
    late, soon, past = (
        Item(clock.now() + LATER),
        Item(clock.now() + SOON),
        Item(clock.now() - 1),
    )
    for item in (late, soon, past):
        deadlines.add(item)
    assert past.struck.wait(DEADLINE)
    assert soon.struck.wait(DEADLINE)
    assert clock.now() >= soon.deadline
    assert not late.struck.is_set()


def test_what_is_discarded_is_never_struck(deadlines, monkeypatch):
    now = [clock.now()]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    gone, after = Item(now[0] + 1), Item(now[0] + 2)
    deadlines.add(gone)
    deadlines.add(after)
    deadlines.discard(gone)
    deadlines.discard(gone)
    now[0] += 3
    deadlines.add(Item(now[0] - 60))  # which wakes it
    assert after.struck.wait(DEADLINE)
    assert not gone.struck.is_set()


def test_an_earlier_deadline_shortens_the_sleep(deadlines, monkeypatch):
    monkeypatch.setattr("django_leasequeue.worker.deadlines._LOOK_EVERY", LATER)
    deadlines.add(Item(clock.now() + LATER))
    for _ in range(20):
        item = Item(clock.now() + 0.001)
        deadlines.add(item)
        assert item.struck.wait(DEADLINE)


# --- What the supervisor knows of it


class Pipe:
    """A child's end of the reports, read by a handler as the supervisor does."""

    def __init__(self):
        self.lines, self.timed = [], {}
        self.reports = Reports(self, None, drain=False)
        self.handler = ReportHandler(
            None, LeaseTable(300), Progress(), None, None, None, None
        )

    def send(self, message, wait=0):
        self.lines.append(json.loads(json.dumps(message)))

    def read(self):
        lines, self.lines = self.lines, []
        return lines

    def heard(self):
        self.handler.handle(ChildSlot(1, None), self)
        return list(self.timed.values())


@pytest.mark.parametrize(
    ("given", "fields", "wait"),
    [
        ({}, {}, None),
        ({"backoff": Fixed(7, jitter=0)}, {"max_attempts": 2}, 7.0),
        ({"on_timeout": "fail"}, {"max_attempts": 2}, None),
    ],
)
def test_a_child_reports_when_to_kill_it_and_what_is_to_follow(given, fields, wait):
    pipe, job = Pipe(), claimed(**fields)
    pipe.reports.began(job, options(timeout=2, **given), 100.0)
    assert pipe.heard() == [TimedRun(job.token, job.id, 2.0, 100.0, wait)]
    assert pipe.heard()[0].kill_at == 100.0 + GRACE


@pytest.mark.parametrize("last", ["ended", "finished"])
def test_a_run_that_has_ended_is_no_reason_to_kill(last):
    """Even if its outcome can't be stored for long; or if only that was heard."""
    pipe, jobs = Pipe(), [claimed(), claimed(id=42)]
    for job in jobs:
        pipe.reports.began(job, options(timeout=2), 100.0)
    if last == "ended":
        pipe.reports.ended(jobs[0])
    else:
        pipe.reports.finished(jobs[0].token, [jobs[0].id], "succeeded")
    assert [run.job_id for run in pipe.heard()] == [42]
