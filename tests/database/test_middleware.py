"""Middleware: context managers that the setting MIDDLEWARE puts around each run."""

import asyncio
import contextlib
import contextvars
import gc
import sys
import weakref

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test import override_settings

from django_leasequeue import Discard
from django_leasequeue.outcomes import Failed, RetryLater, Succeeded
from django_leasequeue.worker import atomic, middleware, runner
from tests.claims import NAME, arun, claim, claimed, context_of, registered, run
from tests.factories import JobFactory
from tests.models import Effect

pytestmark = pytest.mark.django_db(transaction=True)

# What has happened, in order.
SEEN = []
TENANT = contextvars.ContextVar("tenant", default=None)


@pytest.fixture(autouse=True)
def nothing_seen_yet():
    SEEN.clear()


@contextlib.contextmanager
def outer(context):
    SEEN.append(("outer", context.job_id))
    try:
        yield
    except BaseException as error:
        SEEN.append(("outer saw", error))
        raise
    finally:
        SEEN.append("outer ends")


@contextlib.contextmanager
def in_tenant(context):
    token = TENANT.set(context.meta.get("tenant"))
    yield
    TENANT.reset(token)
    SEEN.append("tenant ends")


@contextlib.asynccontextmanager
async def waits(context):
    await asyncio.sleep(0)
    SEEN.append("waits")
    yield
    await asyncio.sleep(0)
    SEEN.append("waits ends")


class Swallows:
    """Would make every exception go away."""

    def __init__(self, context):
        pass

    def __enter__(self):
        pass

    def __exit__(self, kind, error, traceback):
        return True


def raises(context):
    raise ValueError("at once")


@contextlib.contextmanager
def raises_before(context):
    transaction.atomic().__enter__()
    raise ValueError("before")
    yield


@contextlib.contextmanager
def raises_after(context):
    try:
        yield
    finally:
        raise ValueError("after")


@contextlib.contextmanager
def exits_after(context):
    yield
    sys.exit("after")


@contextlib.contextmanager
def breaks_its_connection(context):
    Effect.objects.get(pk=-1)
    yield


def no_manager(context):
    return 7


def listed(*names):
    """The setting, with what this module has of these names."""
    paths = [f"{__name__}.{name}" for name in names]
    return override_settings(LEASEQUEUE={"MIDDLEWARE": paths})


def give(value="x"):
    SEEN.append(("task", TENANT.get()))
    return value


async def give_soon(value="x"):
    await asyncio.sleep(0)
    return give(value)


def fail():
    raise KeyError("the task's own")


async def fail_soon():
    fail()


def run_atomic(function, **fields):
    JobFactory(**{"task": NAME, "args": [], **fields})
    [job] = [claim()]

    def settle(job, outcome):
        from django_leasequeue.models import Job

        return Job.objects.settle([(job, outcome)], with_writes=True)[0]

    with registered(function, atomic=True, timeout=60):
        ended = atomic.run_and_settle(
            job, context_of(job), using="default", settle=settle
        )
    return ended.outcome


def by_thread(function, **fields):
    return run(function, job=claimed(**fields))


def by_loop(function, **fields):
    return arun(function, job=claimed(**fields))


WAYS = pytest.mark.parametrize(
    ("go", "good", "bad"),
    [
        (by_thread, give, fail),
        (run_atomic, give, fail),
        (by_loop, give_soon, fail_soon),
        (by_thread, give_soon, fail_soon),
        (by_loop, give, fail),
    ],
    ids=["plain", "atomic", "async", "async in a thread", "plain in the loop"],
)


@WAYS
def test_they_are_entered_in_order_and_left_in_reverse(go, good, bad):
    with listed("outer", "in_tenant"):
        meta = {"tenant": "a"} if go is run_atomic else '{"tenant": "a"}'
        assert go(good, meta=meta) == Succeeded('"x"')
    (_, job_id), *rest = SEEN
    assert isinstance(job_id, int)
    assert rest == [("task", "a"), "tenant ends", "outer ends"]
    assert TENANT.get() is None


@WAYS
def test_they_see_what_the_task_raised(go, good, bad):
    with listed("outer"):
        assert isinstance(go(bad), Failed)
    [_, (_, error), _] = SEEN
    assert isinstance(error, KeyError)


def test_an_async_manager_is_entered_around_async_tasks():
    with listed("outer", "waits"):
        assert by_loop(give_soon) == Succeeded('"x"')
    assert SEEN[1:] == ["waits", ("task", None), "waits ends", "outer ends"]


def test_a_plain_task_has_no_use_for_an_async_manager(caplog):
    with listed("waits", "outer"):
        assert by_thread(give) == Succeeded('"x"')
    assert SEEN[1:] == [("task", None), "outer ends"]
    [line] = [r.getMessage() for r in caplog.records if r.exc_info]
    assert line.startswith("Job 41 ") and f"{__name__}.waits" in line


BROKEN = [
    "raises",
    "raises_before",
    "raises_after",
    "exits_after",
    "breaks_its_connection",
    "no_manager",
]


@pytest.mark.parametrize("broken", BROKEN)
@WAYS
def test_what_they_raise_changes_nothing(go, good, bad, broken, caplog):
    """It is logged once, with the job, and the others are entered and left all the same."""
    with listed("outer", broken, "in_tenant"):
        assert go(good) == Succeeded('"x"')
        [record] = [r for r in caplog.records if r.exc_info]
        assert record.job_id and f"{__name__}.{broken}" in record.getMessage()
        assert SEEN[-2:] == ["tenant ends", "outer ends"]
        caplog.clear()
        outcome = go(bad)
        assert isinstance(outcome, Failed)
        assert outcome.error["exception_class"] == "builtins.KeyError"
        assert len([r for r in caplog.records if r.exc_info]) <= 1
    assert not connection.in_atomic_block


@contextlib.contextmanager
def can_not_report(context):
    try:
        yield
    except Exception as error:
        raise RuntimeError(f"no report of {error}") from error


def refuse(card):
    raise ValueError(f"{card} was refused")


@pytest.mark.parametrize("redact", [None, "card"])
def test_what_a_task_hides_is_not_logged(redact, caplog):
    """Though what they raise quotes the task's error and has it for its cause."""
    with listed("can_not_report"):
        run(refuse, "4111-1111", options={"redact": redact})
    assert [r for r in caplog.records if r.exc_info]
    assert "no report of" in caplog.text and "in refuse" in caplog.text
    assert ("4111" in caplog.text) is (redact is None)


@contextlib.contextmanager
def leaves_open(context):
    transaction.atomic().__enter__()
    yield


@contextlib.asynccontextmanager
async def leaves_open_there(context):
    await sync_to_async(transaction.atomic().__enter__)()
    yield


def write_row():
    Effect.objects.create()


def test_a_transaction_that_they_leave_open_is_rolled_back(caplog):
    with listed("leaves_open"):
        assert by_thread(write_row) == Succeeded("null")
    assert "middleware left a transaction open on default" in caplog.text
    assert not connection.in_atomic_block
    assert not Effect.objects.exists()


@pytest.mark.parametrize("go", [by_loop, by_thread])
def test_around_an_async_task_it_is_taken_for_the_tasks(go):
    """Both have the connections of one thread, which are looked at only at the end."""

    async def write():
        await Effect.objects.acreate()

    with listed("leaves_open_there"):
        outcome = go(write)
    assert isinstance(outcome, Failed)
    assert outcome.error["exception_class"].endswith("TransactionLeftOpen")
    assert not connection.in_atomic_block
    assert not Effect.objects.exists()


@WAYS
def test_what_they_swallow_is_the_outcome_all_the_same(go, good, bad):
    with listed("Swallows"):
        assert isinstance(go(bad), Failed)

        def discard():
            raise Discard("no use")

        if go is by_thread:
            assert isinstance(go(discard, max_attempts=9), Failed)
            assert isinstance(go(bad, max_attempts=9), RetryLater)


def test_an_atomic_task_commits_within_them(monkeypatch):
    """Entered before its transaction, so that nothing of theirs breaks it or is undone."""

    def write():
        Effect.objects.create(name="by the task")
        raise ValueError

    @contextlib.contextmanager
    def writes(context):
        Effect.objects.create(name="before")
        yield
        assert not connection.in_atomic_block

    monkeypatch.setattr(sys.modules[__name__], "writes", writes, raising=False)
    with listed("writes"):
        assert isinstance(run_atomic(write), Failed)
    assert list(Effect.objects.values_list("name", flat=True)) == ["before"]


def test_no_job_that_cannot_be_called_enters_them():
    with listed("outer"):
        assert isinstance(by_thread(give, recoveries=9, lost_alone=9), Failed)
        assert isinstance(by_thread(give, args="[1, 2, 3]"), Failed)
    assert SEEN == []


def test_a_run_that_is_cancelled_on_the_way_in_leaves_what_it_entered():
    entered = []

    @contextlib.asynccontextmanager
    async def stuck(context):
        entered.append(context)
        await asyncio.Event().wait()
        yield

    async def cancel():
        job = claimed()
        running = asyncio.create_task(runner.arun(job, context_of(job)))
        while not entered:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    sys.modules[__name__].stuck = stuck
    try:
        with listed("outer", "stuck"), registered(give_soon):
            asyncio.run(cancel())
    finally:
        del sys.modules[__name__].stuck
    assert SEEN[1:] == ["outer ends"]


def test_what_the_task_held_is_freed_without_a_collection():
    class Held:
        """Something that a task holds."""

    seen = []

    def task():
        held = Held()
        seen.append(weakref.ref(held))
        raise ValueError

    gc.disable()
    try:
        with listed("Swallows"):
            by_thread(task)
        assert seen[0]() is None
    finally:
        gc.enable()


def test_without_any_nothing_is_looked_up(monkeypatch):
    assert middleware.loaded() == ()
    monkeypatch.setattr(middleware, "JobConnections", None)
    assert by_thread(give) == Succeeded('"x"')


def test_what_cannot_be_imported_keeps_the_worker_from_starting():
    with (
        override_settings(LEASEQUEUE={"MIDDLEWARE": ["not_there.middleware"]}),
        pytest.raises(ModuleNotFoundError),
    ):
        middleware.loaded()
