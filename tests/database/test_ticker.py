"""The ticker: a thread that makes jobs of ticks, whatever is wrong with one schedule."""

import contextlib
import logging

import pytest
from django.db import OperationalError, connection

from django_leasequeue import every, firing, registry, signals
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Schedule
from django_leasequeue.worker import bounded
from django_leasequeue.worker import ticker as module
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.stop import Level
from django_leasequeue.worker.ticker import Ticker
from tests.helpers import eventually, in_thread, new_connection, together
from tests.road import connection_lost, statements, toy
from tests.scheduling import HALF, LONG, STEP, a_schedule, nth, tick, ticks
from tests.tasks import add
from tests.workers import options

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    monkeypatch.setattr(registry, "declared", dict)


@pytest.fixture
def ticker():
    yield Ticker("default")
    bounded.let_go("default")


def test_it_sleeps_until_the_next_tick(ticker):
    schedule = a_schedule(every(seconds=2, args=[1, 2]), ago=LONG)
    assert ticker.turn() < 0.1  # the tick that was missed
    assert Job.objects.count() == 1
    # The next one may be due by then, too.
    assert eventually(ticker.turn) <= 2
    a_schedule(every(hours=1, args=[1, 2]), name="later")
    Schedule.objects.filter(pk=schedule.pk).delete()
    ticker.turn()
    assert ticker.turn() == 5


def test_without_schedules_it_holds_no_connection(ticker):
    assert 20 < ticker.turn() <= 30
    assert connection.connection is None
    with statements() as sent:
        ticker.turn()
    # What the code declares is for once a minute.
    assert len([sql for sql in sent if "leasequeue_schedule" in sql]) == 1


def test_what_is_idle_costs_little(ticker):
    """A look every five seconds is one statement."""
    a_schedule(every(hours=1, args=[1, 2]))
    ticker.turn(), ticker.turn()
    with statements() as sent:
        ticker.turn()
    assert len(sent) == 1


@pytest.mark.parametrize(
    "columns, problem",
    [
        ({"args": [1]}, "Arguments don't fit tests.tasks.add"),
        ({"expression": "x"}, "whole number of seconds"),
        ({"task": "gone"}, "No worker that looked at it knows the task gone."),
    ],
)
def test_a_bad_schedule_stops_only_itself_and_heals(
    ticker, caplog, columns, problem, monkeypatch
):
    bad = a_schedule(name="bad", ago=2 * STEP + HALF, **columns)
    a_schedule(name="good", ago=STEP + HALF)
    with caplog.at_level(logging.WARNING, "django_leasequeue.worker"):
        ticker.turn()
        ticker._set_aside.clear()
        ticker.turn()
    assert Job.objects.filter(schedule="good").count() == 1
    [record] = caplog.records
    assert problem in record.getMessage() and "bad" in record.getMessage()
    row = Schedule.objects.get(name="bad")
    assert problem in row.problem and row.state == "broken" and row.problem_at
    Schedule.objects.filter(name="bad").update(
        args=[1, 2], expression="3600", task="tests.tasks.add"
    )
    ticker._set_aside.clear()
    ticker.turn()
    assert Job.objects.get(schedule="bad").tick == nth(bad, 2)
    healed = Schedule.objects.get(name="bad")
    assert (healed.problem, healed.problem_at, healed.state) == ("", None, "active")


@contextlib.contextmanager
def at_it(name):
    """Somebody has the schedule's row locked, as while a receiver of a tick thinks."""
    with new_connection() as other:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            sql = "SELECT id FROM leasequeue_schedule WHERE name = %s FOR UPDATE"
            cursor.execute(sql, [name])
        try:
            yield
        finally:
            other.rollback()
            other.set_autocommit(True)


@pytest.mark.skipif(
    not connection.features.has_select_for_update, reason="has no row locks"
)
def test_nobody_waits_for_one_that_somebody_is_at(ticker, monkeypatch):
    """Neither to say that its code has it still nor to change it."""
    task = registry.get("tests.tasks.add")
    rules = {name: every(hours=1, args=[1, 2], name=name) for name in ("a", "b")}

    def declared():
        return {name: (task, rule) for name, rule in rules.items()}

    monkeypatch.setattr(registry, "declared", declared)
    ticker.turn()
    Schedule.objects.update(seen_at=DatabaseNow(-60))
    rules["b"] = every(hours=2, args=[1, 2], name="b")
    a_schedule(name="due", ago=STEP + HALF)
    ticker._declare_at = 0.0
    with at_it("a"), at_it("b"):
        ticker.turn()
    assert Job.objects.get().schedule == "due"
    assert Schedule.objects.get(name="b").expression == "3600"
    # It is said again soon.
    ticker._declare_at -= 2
    ticker.turn()
    assert Schedule.objects.get(name="b").expression == "7200"


@pytest.mark.skipif(
    not connection.features.has_select_for_update, reason="has no row locks"
)
def test_while_somebody_is_at_one_it_asks_less_and_less_often(ticker, monkeypatch):
    monkeypatch.setattr(module.random, "uniform", lambda low, high: high)
    schedule = a_schedule(ago=STEP + HALF)
    with at_it("s"):
        pauses = [ticker.turn() for _ in range(7)]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    ticker.turn()
    assert Job.objects.get().tick == nth(schedule, 1)
    Schedule.objects.update(next_tick=DatabaseNow())
    with at_it("s"):
        assert ticker.turn() == 0.05


def test_a_receiver_that_exits_ends_no_ticker(ticker):
    """It would end that of each worker in turn, and nobody would make ticks any more."""
    a_schedule(name="bad", ago=2 * STEP + HALF)
    a_schedule(name="good", ago=STEP + HALF)

    def leave(schedule, **_):
        if schedule.name == "bad":
            raise SystemExit(3)

    signals.before_schedule.connect(leave)
    try:
        ticker.turn()
    finally:
        signals.before_schedule.disconnect(leave)
    assert Job.objects.get().schedule == "good"
    assert "SystemExit" in Schedule.objects.get(name="bad").problem


def test_each_schedule_has_the_time_of_a_verb_for_itself(ticker, monkeypatch):
    """Else the last of many would be cut off."""
    a_schedule(name="a", ago=STEP + HALF)
    a_schedule(name="b", ago=STEP + HALF)
    seen = []

    def note(**_):
        seen.append(bounded._calls.get(id(ticker._bounded)))

    signals.before_schedule.connect(note)
    try:
        ticker.turn()
    finally:
        signals.before_schedule.disconnect(note)
    first, second = seen
    if connection.vendor != "sqlite":
        assert first[1] is not second[1]


def test_a_bad_schedule_is_looked_at_now_and_then(ticker):
    a_schedule(ago=STEP + HALF, args=[1])
    ticker.turn()
    with statements() as sent:
        assert 4 < ticker.turn() <= 5
    assert len(sent) == 1


def test_older_code_leaves_a_new_task_to_others(ticker):
    """For a minute it says nothing, since newer code may be about to run it."""
    schedule = a_schedule(ago=STEP + HALF, task="new", next_tick=DatabaseNow())
    ticker.turn()
    assert Schedule.objects.get().problem == ""
    with toy(lambda a, b: None, name="new"):
        assert len(tick(schedule).jobs) == 1


def test_an_outage_is_nobodys_problem(ticker, monkeypatch):
    a_schedule(ago=STEP + HALF)
    error = connection_lost()

    def lost(*_):
        raise error

    monkeypatch.setattr(firing, "fire", lost)
    monkeypatch.setattr(ticker._bounded, "is_away", lambda error: True)
    with pytest.raises(OperationalError):
        ticker.turn()
    assert Schedule.objects.get().problem == ""


def test_130_workers_make_one_job_of_a_tick():
    """Case 130, here with threads; see also tests/crash/test_schedules.py."""
    a_schedule(
        every(seconds=1, missed="all", overlap="allow", cap=50, args=[1, 2]), ago=LONG
    )
    start = Schedule.objects.get().next_tick

    def work(_):
        own = Ticker("default")
        while Job.objects.count() < 53:
            own.turn()

    together(4, work)
    made = ticks()
    assert len(made) == len(set(made))
    last = Schedule.objects.get()
    assert last.fired == len(made) and last.last_tick == made[-1] and start


def test_129_it_ticks_beside_jobs_that_hold_all_slots(monkeypatch, tmp_path):
    """Case 129: the thread waits for no job; a worker makes and runs what is due."""
    monkeypatch.setattr(module.random, "uniform", lambda low, high: low)
    a_schedule(every(hours=1, args=[1, 2]), ago=STEP + HALF)
    worker = InProcess(options(threads=1), Progress(None))
    with in_thread(worker.run):
        try:
            eventually(lambda: Job.objects.filter(status="succeeded").count() == 1)
        finally:
            worker.stop.request(Level.GRACEFUL, "the test is over")
    assert Job.objects.get().result == 3


def test_a_drain_makes_no_ticks():
    a_schedule(ago=STEP + HALF)
    InProcess(options(drain=True), Progress(None)).run()
    assert not Job.objects.exists()


def test_receivers_get_the_schedule(ticker):
    seen = []

    def note(sender, schedule, tick, **_):
        seen.append((sender, schedule.name, tick.at))

    signals.before_schedule.connect(note)
    try:
        schedule = a_schedule(ago=STEP + HALF)
        ticker.turn()
    finally:
        signals.before_schedule.disconnect(note)
    assert seen == [(Schedule, "s", nth(schedule, 1))]
    assert add.name == Job.objects.get().task
