"""worker.settler and worker.writer: outcomes find their way into their rows, in groups."""

import logging
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import (
    DataError,
    InternalError,
    OperationalError,
    connection,
    transaction,
)

from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, Released, RetryLater, Snoozed, Succeeded
from django_leasequeue.states import Status
from django_leasequeue.worker import outage as outages
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.running import Run
from django_leasequeue.worker.settler import Settler
from tests.claims import context_of
from tests.factories import JobFactory
from tests.helpers import eventually, paused
from tests.road import claim, connection_lost, deadlock, row, unwritable
from tests.workers import end_leases

pytestmark = pytest.mark.django_db(transaction=True)

QUERYSET = type(Job.objects.none())
ERROR = {
    "exception_class": "builtins.ValueError",
    "message": "as asked\nand more",
    "traceback": "…",
    "attempt": 1,
    "at": "2026-01-02T03:04:05+00:00",
    "worker": "host:1",
}


class Settling:
    """A settler, and the words that its outcomes left with, by job."""

    def __init__(self):
        self.words = {}
        self.settler = Settler("default", self.settled)

    def settled(self, done):
        self.words |= {run.job.id: word for run, word in done}

    def put(self, run, outcome):
        self.settler.put(run, outcome)

    def word(self, run):
        return eventually(lambda: self.words.get(run.job.id))


@pytest.fixture
def settling():
    settling = Settling()
    yield settling
    settling.settler.close(60)


@pytest.fixture
def run():
    return runs(1)[0]


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "django_leasequeue.worker")
    return lambda: [(r.levelname, r.getMessage()) for r in caplog.records]


def runs(number):
    """Return runs of so many new jobs that this process has claimed."""
    for _ in range(number):
        JobFactory(queue="default")
    return [Run(job, None, context_of(job)) for job in claim()]


@pytest.fixture
def refuse(monkeypatch):
    """refuse(error, when): settle raises for groups for which when(pairs) is true."""
    real = QUERYSET.settle
    asked = []

    def start(error, when):
        def settle(self, pairs):
            asked.append(len(pairs))
            if when(pairs):
                raise error() if callable(error) else error
            return real(self, pairs)

        monkeypatch.setattr(QUERYSET, "settle", settle)
        return asked

    return start


def times(number):
    """Return a `when` that is true so many times."""
    left = [True] * number
    return lambda pairs: left.pop() if left else False


@pytest.mark.parametrize(
    ("outcome", "word", "status"),
    [
        (Succeeded("3"), "succeeded", Status.SUCCEEDED),
        (Failed(ERROR), "failed", Status.FAILED),
        (RetryLater(timedelta(9), ERROR), "to be retried", Status.PENDING),
        (Snoozed(timedelta(9)), "snoozed", Status.PENDING),
        (Released(), "given back", Status.PENDING),
    ],
)
def test_each_outcome_is_stored_told_and_counted(
    settling, run, caplog, outcome, word, status
):
    caplog.set_level(logging.INFO, "django_leasequeue.worker")
    settling.put(run, outcome)
    assert settling.word(run) == word
    assert row(run.job)["status"] == status
    [record] = caplog.records
    assert word in record.getMessage()
    assert (record.job_id, record.outcome) == (run.job.id, word)
    assert (record.task, record.queue, record.worker) == (
        "tests.tasks.add",
        "default",
        "host:1",
    )
    if isinstance(outcome, Failed | RetryLater):
        assert record.getMessage().endswith(
            "builtins.ValueError: as asked "
            f"(traceback: manage.py jobs show {run.job.id})"
        )
        assert row(run.job)["errors"][-1]["traceback"]


def test_what_ends_while_a_write_is_in_flight_goes_into_the_next(settling, refuse):
    asked = refuse(None, lambda pairs: False)
    first, *others = runs(5)
    with paused(QUERYSET, "settle") as flight:
        settling.put(first, Succeeded())
        flight.wait()
        for run in others:
            settling.put(run, Succeeded())
    for run in (first, *others):
        assert settling.word(run) == "succeeded"
    assert asked == [1, 4]


def test_one_bad_outcome_costs_its_group_nothing(settling, refuse, lines):
    good, bad, also_good = runs(3)

    def has_bad(pairs):
        return any(job is bad.job and outcome.result for job, outcome in pairs)

    asked = refuse(DataError("refused"), has_bad)
    with paused(QUERYSET, "settle") as flight:
        settling.put(runs(1)[0], Succeeded())
        flight.wait()
        for run in (good, bad, also_good):
            settling.put(run, Succeeded('"x"'))
    for run in (good, bad, also_good):
        assert settling.word(run) == "succeeded"
    assert asked[1:] == [3, 1, 1, 1, 1]
    assert row(good.job)["result"] == row(also_good.job)["result"] == "x"
    assert row(bad.job)["result"] is None
    assert any("stored without them" in text for level, text in lines())


def test_an_error_that_can_not_be_stored_is_stored_by_its_kind(settling, run, refuse):
    def has_traceback(pairs):
        return any(outcome.error["traceback"] for _, outcome in pairs)

    refuse(DataError("refused"), has_traceback)
    settling.put(run, Failed(ERROR))
    assert settling.word(run) == "failed"
    [error] = row(run.job)["errors"]
    assert error["exception_class"] == "builtins.ValueError"
    assert "could not be stored" in error["message"]


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("nobody knows it"),
        InternalError("nor this one"),
        DataError("refused, in whatever form"),
        TypeError("a fault of ours"),
    ],
)
def test_a_database_that_takes_nothing_does_not_cost_the_outcome(
    settling, run, refuse, monkeypatch, error
):
    monkeypatch.setattr(outages, "_LONGEST_PAUSE", 0.1)
    asked = refuse(error, times(12))
    settling.put(run, Succeeded("1"))
    assert settling.word(run) == "succeeded"
    assert row(run.job)["result"] == 1
    assert len(asked) == 13


@pytest.mark.parametrize("refusals", [3, 11])
def test_a_server_that_is_read_only_casts_no_doubt_on_an_outcome(
    settling, run, refuse, monkeypatch, refusals
):
    """However often, and whichever of the tries is the first that it takes."""
    monkeypatch.setattr(outages, "_LONGEST_PAUSE", 0.1)
    refuse(unwritable, times(refusals))
    settling.put(run, Succeeded("1"))
    assert settling.word(run) == "succeeded"
    assert row(run.job)["result"] == 1


@pytest.mark.parametrize("answers", [False, True], ids=["is down", "answers"])
def test_only_a_server_that_answers_right_after_it_casts_doubt_on_an_outcome(
    settling, run, refuse, monkeypatch, answers
):
    """Three lost connections may be three outages; a packet too large would lose it as well."""
    monkeypatch.setattr(outages, "_LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(Bounded, "answers", lambda self: answers)
    asked = refuse(OperationalError("the line broke"), times(3))
    settling.put(run, Succeeded("1"))
    assert settling.word(run) == "succeeded"
    assert row(run.job)["result"] == (None if answers else 1)
    assert len(asked) == 4


def test_what_never_can_be_stored_is_tried_until_the_lease_is_lost(
    settling, run, refuse
):
    refuse(DataError("refused"), times(4))
    settling.put(run, Succeeded("1"))
    Job.objects.filter(pk=run.job.id).update(processing_token=uuid4())
    assert settling.word(run) == "lost"


def test_004_passing_trouble_is_sat_out(settling, run, refuse, lines):
    refuse(deadlock, times(2))
    settling.put(run, Succeeded())
    assert settling.word(run) == "succeeded"
    assert [level for level, _ in lines()] == ["INFO"]


def test_a_row_that_somebody_else_has_locked_is_tried_again(
    settling, run, second_connection
):
    if not second_connection.features.has_select_for_update:
        pytest.skip("rows can't be locked here")
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=run.job.id)
        with paused(QUERYSET, "settle", after=True) as tried:
            settling.put(run, Succeeded())
            tried.wait()
        assert settling.words == {}
    assert settling.word(run) == "succeeded"


def test_096_the_outcome_survives_the_loss_of_the_connection(settling, run, refuse):
    if _is_sqlite():
        pytest.skip("a file has no connection to lose")
    asked = refuse(connection_lost, times(2))
    settling.put(run, Succeeded())
    assert settling.word(run) == "succeeded"
    assert len(asked) == 3


def test_an_outcome_that_cuts_the_connection_each_time_is_found_out(settling, refuse):
    if _is_sqlite():
        pytest.skip("a file has no connection to lose")
    good, bad = runs(2)

    def has_bad(pairs):
        return any(job is bad.job and outcome.result for job, outcome in pairs)

    refuse(connection_lost, has_bad)
    with paused(QUERYSET, "settle") as flight:
        settling.put(runs(1)[0], Succeeded())
        flight.wait()
        settling.put(good, Succeeded('"x"'))
        settling.put(bad, Succeeded('"x"'))
    assert settling.word(good) == settling.word(bad) == "succeeded"
    assert row(good.job)["result"] == "x"
    assert row(bad.job)["result"] is None


def test_048_a_lost_lease_is_told_with_both_workers(settling, run, lines):
    end_leases(Job.objects.all())
    [taken] = claim()
    Job.objects.filter(pk=taken.id).update(worker="the thief")
    settling.put(run, Succeeded("1"))
    assert settling.word(run) == "lost"
    assert run.context.lease_lost
    assert row(run.job)["result"] is None
    [(level, text)] = lines()
    assert level == "WARNING"
    assert "host:1 ran it" in text
    assert "the thief" in text


def test_088_a_row_that_was_removed_is_not_made_again(settling, run, lines):
    Job.objects.all().delete()
    settling.put(run, Succeeded())
    assert settling.word(run) == "lost"
    assert "its row was removed" in lines()[0][1]
    assert not Job.objects.exists()


def test_close_stores_what_is_left():
    settling, all_runs = Settling(), runs(3)
    for run in all_runs:
        settling.put(run, Succeeded())
    settling.settler.close(60)
    assert set(settling.words.values()) == {"succeeded"}


def test_close_waits_no_longer_than_it_may(run, refuse):
    settling = Settling()
    refuse(deadlock, lambda pairs: True)
    settling.put(run, Succeeded())
    settling.settler.close(0.3)
    assert settling.words == {}
    assert row(run.job)["status"] == Status.RUNNING
    settling.settler._thread.join(60)


def _is_sqlite():
    return not connection.features.has_select_for_update
