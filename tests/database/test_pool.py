"""A pool of psycopg: it is for tasks and callers; workers have connections of their own."""

import json
from unittest import mock

import pytest
from django.db import connection, connections

from django_leasequeue.models import Job
from django_leasequeue.worker import bounded
from django_leasequeue.worker.bounded import Bounded
from tests import tasks
from tests.helpers import together

pytestmark = pytest.mark.django_db(transaction=True)


def alone(call):
    """Call it in a thread of its own, which has connections of its own."""
    [answer] = together(1, lambda _: call())
    return answer


@pytest.fixture(autouse=True)
def on_postgres():
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL has pools")
    pytest.importorskip("psycopg_pool")


@pytest.fixture
def pooled():
    """This process with a pool of one connection, closed at the end."""
    given = connections["default"].settings_dict
    given = {**given, "OPTIONS": {"pool": {"min_size": 1, "max_size": 1}}}
    with mock.patch.dict(connections.settings, {"default": given}):
        yield
        alone(lambda: connections["default"].close_pool())


def test_threads_dispatch_through_a_pool_of_one(pooled):
    """Each waits for the connection, and gives it back."""

    def dispatch(number):
        _, outcome = tasks.add.using(dedup=f"{number % 4}").dispatch(number, 1)
        connections["default"].close()
        return outcome.value

    told = together(8, dispatch)
    assert sorted(told) == ["added"] * 4 + ["skipped"] * 4


def test_a_worker_s_own_connection_takes_no_slot(pooled):
    """It is kept for ever, and gets what belongs to it back."""

    def own():
        mine = connections["default"]
        with mine.cursor() as cursor:
            cursor.execute("SELECT 1")
        with Bounded("default"), mine.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() != ("0",)
        # The only slot is free meanwhile.
        assert alone(count) == 0
        bounded.let_go("default")
        with mine.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("0",)
        mine.close()
        return alone(count)

    def count():
        found = Job.objects.count()
        connections["default"].close()
        return found

    assert alone(own) == 0


@pytest.mark.parametrize("mode", ["--processes=1", "--in-process"])
def test_a_worker_with_a_pool_smaller_than_its_threads(worker_process, mode):
    """Its jobs wait for each other's connections; nothing else waits for them."""
    Job.objects.dispatch_many(
        [tasks.record_effect.spec(f"effect {number}") for number in range(20)]
    )
    options = {"pool": {"min_size": 1, "max_size": 1, "timeout": 60}}
    worker = worker_process(
        mode,
        "--drain",
        settings={"THREADS": 4},
        env={"LEASEQUEUE_TEST_OPTIONS": json.dumps(options)},
    )
    assert worker.wait() == 0, worker.output
    assert set(Job.objects.values_list("status", "attempts")) == {("succeeded", 1)}
    assert "Traceback" not in worker.output
