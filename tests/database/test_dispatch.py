"""Dispatch: what is stored, in whose transaction, on which database, and by which door."""

import asyncio
import datetime as dt
import uuid

import pytest
from asgiref.sync import sync_to_async
from django.db import (
    connection,
    connections,
)
from django.utils import timezone

from django_leasequeue import Dedup, payloads
from django_leasequeue.db import DatabaseNow
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests.factories import JobFactory
from tests.models import Effect
from tests.road import claim, ids, row, statements, table, toy
from tests.tasks import add

on_both = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def dispatch(*args, task=add, **options):
    return Job.objects.dispatch(task, args or (1, 2), **options)


def database_now():
    JobFactory()
    job = Job.objects.annotate(now=DatabaseNow()).latest("id")
    job.delete()
    return job.now


# --- What is stored


def test_a_new_job():
    """A pending row with the arguments, due now by the database's clock, never claimed."""
    job, outcome = dispatch()
    assert outcome is DispatchOutcome.ADDED
    stored = row(job)
    assert stored["created_at"] == stored["run_at"]
    expected = {
        "task": "tests.tasks.add",
        "queue": "default",
        "args": [1, 2],
        "kwargs": {},
        "status": Status.PENDING,
        "priority": 0,
        "round": 1,
        "meta": {},
        "errors": [],
        "attempts": 0,
        "max_attempts": 1,
        "recoveries": 0,
        "lost_alone": 0,
        "suspect": 0,
        "claims": 0,
        "worker": "",
        "worker_ids": "",
        "suppressed": 0,
        "dedup_hold": "",
        "rerun": False,
        "blocked": False,
    }
    for name, value in stored.items():
        if name not in ("id", "created_at", "run_at"):
            assert value == expected.get(name), name


def test_the_job_that_is_returned():
    """It reads like the row, times included, and can be saved in no half-known form."""
    job = dispatch(delay=60, dedup=Dedup("k", ttl=60)).job
    for name, value in row(job).items():
        assert getattr(job, name) == value, name


def test_the_answer_is_a_pair():
    """Like get_or_create: unpacked, or asked by name."""
    answer = dispatch(dedup="k")
    job, outcome = answer
    assert (answer.job, answer.outcome) == (job, outcome)
    assert answer.added
    assert not dispatch(dedup="k").added


def test_options():
    """Each goes into its column."""
    job = dispatch(
        queue="mail",
        priority=-7,
        group="import 3",
        max_attempts=4,
        meta={"by": "admin"},
    ).job
    stored = row(job)
    assert (stored["queue"], stored["priority"]) == ("mail", -7)
    assert (stored["group"], stored["max_attempts"]) == ("import 3", 4)
    assert stored["meta"] == {"by": "admin"}


@pytest.mark.parametrize("delay", [3600, 3600.5, dt.timedelta(hours=1), 0])
def test_delay(delay):
    """It counts from now by the database's clock, whatever this machine's says."""
    stored = row(dispatch(delay=delay).job)
    expected = delay if isinstance(delay, dt.timedelta) else dt.timedelta(seconds=delay)
    assert stored["run_at"] - stored["created_at"] == expected
    assert abs(stored["created_at"] - database_now()) < dt.timedelta(minutes=1)


def test_run_at():
    """An instant is stored as it is, to the microsecond, and read back in UTC."""
    zone = dt.timezone(dt.timedelta(hours=5, minutes=45))
    at = dt.datetime(2031, 3, 30, 2, 30, 0, 123456, tzinfo=zone)
    stored = row(dispatch(run_at=at).job)
    assert stored["run_at"] == at
    assert stored["run_at"].utcoffset() == dt.timedelta(0)


def test_run_at_without_use_tz(settings):
    """Where USE_TZ is off a naive time is in TIME_ZONE."""
    settings.USE_TZ = False
    zone = timezone.get_default_timezone()
    job = dispatch(run_at=dt.datetime(2031, 7, 1, 12)).job  # noqa: DTZ001
    assert row(job)["run_at"] == dt.datetime(2031, 7, 1, 12, tzinfo=zone)


def test_delay_decides_when_it_is_claimed():
    """A delayed job waits, one whose time is long past does not."""
    dispatch(delay=60)
    long_ago = dt.datetime(1971, 1, 1, tzinfo=dt.UTC)
    due = dispatch(run_at=long_ago).job
    assert ids(claim()) == [due.id]


# --- Arguments


def take(value=None, **named):
    """Takes anything."""


# Those of arguments alone: tests/unit/test_specs.py has them refused in meta.
BEYOND_64_BITS = [2**64, 10**40]
VALUES = [
    *BEYOND_64_BITS,
    None,
    True,
    0,
    -(2**63),
    0.1,
    1e22,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    "",
    "é\U0001f4a9\u2028\x7f'\"\\%s{}",
    [],
    {},
    [[[]]],
    {"": {"b": 1, "a": [1, "1", 1.0]}},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_115_one_form_everywhere(value):
    """The job returned, the row, and what the worker gets are the same value and type."""
    meta = None if value in BEYOND_64_BITS else {"x": value}
    with toy(take, name="taker") as taker:
        job = Job.objects.dispatch(taker, [value], {"x": value}, meta=meta).job
    stored = row(job)
    for seen in (
        job.args[0],
        job.kwargs["x"],
        stored["args"][0],
        stored["kwargs"]["x"],
    ):
        assert repr(seen) == repr(value)
    [held] = claim()
    assert repr(payloads.load(held.args)) == repr([value])
    assert repr(payloads.load(held.kwargs)) == repr({"x": value})


@pytest.mark.parametrize("door", ["dispatch", "many", "task", "using", "async"])
def test_112_every_door_checks_alike(door):
    """What one door refuses, all refuse, and nothing is stored."""
    with toy(take, name="taker") as taker:
        doors = {
            "dispatch": lambda value: Job.objects.dispatch(taker, [value]),
            "many": lambda value: Job.objects.dispatch_many([taker.spec(value)]),
            "task": taker.dispatch,
            "using": taker.using(delay=5).dispatch,
            "async": lambda value: asyncio.run(taker.adispatch(value)),
        }
        for wrong in (Effect(name="x"), {1}, (1, 2), {1: "a"}, uuid.uuid4()):
            with pytest.raises(TypeError, match="'value'"):
                doors[door](wrong)
        with pytest.raises(ValueError, match="NUL"):
            doors[door]("a\x00")
    assert table() == {}


def test_114_no_insert_for_wrong_arguments():
    """They are refused before the database is asked anything."""
    with connection.execute_wrapper(_no_statement):
        with pytest.raises(TypeError, match="missing a required argument: 'b'"):
            Job.objects.dispatch(add, [1])
        with pytest.raises(TypeError, match="'b'"):
            Job.objects.dispatch(add, [1, uuid.uuid4()])
        with pytest.raises(UnknownTask):
            Job.objects.dispatch("tests.tasks.gone")


def _no_statement(execute, sql, params, many, context):
    raise AssertionError(sql)


# --- Doors


def run_async(main):
    """Run a coroutine function in a loop of its own, and close its thread's connections."""

    async def run():
        try:
            return await main()
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(run())


def test_by_name():
    """The registered name will do where the function can't be imported."""
    job = Job.objects.dispatch("tests.tasks.add", [1, 2]).job
    assert row(job)["task"] == "tests.tasks.add"


def test_doors_of_the_task():
    """The task's own verbs take the call's arguments as they are."""
    job = add.dispatch(1, b=2).job
    assert (row(job)["args"], row(job)["kwargs"]) == ([1], {"b": 2})
    later, outcome = add.using(delay=60, dedup="k", queue="mail").dispatch(3, 4)
    assert outcome is DispatchOutcome.ADDED
    assert row(later)["dedup_id"] == "k"
    assert row(later)["queue"] == "mail"
    assert add.using(dedup="k", queue="mail").dispatch(3, 4).job == later


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("door", ["manager", "task", "using", "many"])
def test_async_doors(door):
    """Each verb has its async form, which works in a plain event loop."""

    async def main():
        if door == "manager":
            return await Job.objects.adispatch(add, [1, 2], queue="mail")
        if door == "task":
            return await add.adispatch(1, 2)
        if door == "using":
            return await add.using(queue="mail").adispatch(1, 2)
        [answer] = await Job.objects.adispatch_many([add.spec(1, 2)])
        return answer

    answer = run_async(main)
    assert answer.added
    assert row(answer.job)["args"] == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_async_dispatches_at_once():
    """Twenty coroutines that want one id get one job, and know it."""

    async def main():
        return await asyncio.gather(
            *(Job.objects.adispatch(add, [1, n], dedup="k") for n in range(20))
        )

    answers = run_async(main)
    assert len({answer.job.id for answer in answers}) == 1
    assert sorted(answer.added for answer in answers) == [False] * 19 + [True]
    assert len(table()) == 1


@pytest.mark.django_db(transaction=True)
def test_cost():
    """One statement for a plain job, two for one with an id, and none for reading it."""
    connection.ensure_connection()
    with statements() as plain:
        job = dispatch().job
        assert (job.id, job.status, job.queue) == (job.id, "pending", "default")
    assert len(plain) == 1
    with statements() as keyed:
        dispatch(dedup="k")
    assert len(keyed) <= 2
