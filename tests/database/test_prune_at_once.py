"""An age of 0: the row goes in the transaction that records the outcome, under its guard."""

import contextlib
import uuid

import pytest
from django.db import OperationalError, connection

from django_leasequeue import db
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.transitions.settle import Settled, Verdict
from tests import tasks
from tests.factories import JobFactory
from tests.road import claim, connection_lost, row, table, toy
from tests.token_guard import guarded

ERROR = {"exception_class": "builtins.ValueError", "message": "as asked"}
WRITTEN = Settled(Verdict.WRITTEN)
CANCELLED = Settled(Verdict.WRITTEN, cancelled=True)


@pytest.fixture(autouse=True)
def keep_nothing(settings):
    settings.LEASEQUEUE = {"RETENTION": 0}


def held(**fields):
    job = JobFactory(**{"task": tasks.add.name, **fields})
    return next(one for one in claim() if one.id == job.pk)


def settle(*pairs):
    return Job.objects.settle(list(pairs))


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [(Succeeded("3"), WRITTEN), (Failed(ERROR), WRITTEN), (Cancelled(), CANCELLED)],
    ids=str,
)
def test_what_has_ended_leaves_no_row(outcome, verdict):
    job = held()
    with guarded():
        assert settle((job, outcome)) == [verdict]
    assert row(job) is None


@pytest.mark.parametrize(
    "outcome", [RetryLater(60, ERROR), Snoozed(60), Released()], ids=str
)
def test_what_has_not_ended_stays(outcome):
    job = held()
    assert settle((job, outcome)) == [WRITTEN]
    assert row(job)["status"] == "pending"


def test_another_run_that_was_asked_for_comes_first():
    job = held()
    Job.objects.filter(pk=job.id).update(rerun=True)
    assert settle((job, Succeeded("3"))) == [WRITTEN]
    assert row(job)["status"] == "pending"


def test_a_cancel_that_was_asked_for_ends_a_retry():
    job = held()
    Job.objects.filter(pk=job.id).update(cancel_requested_at=DatabaseNow())
    assert settle((job, RetryLater(60, ERROR))) == [CANCELLED]
    assert row(job) is None


def test_only_under_the_guard():
    """A worker that lost its lease removes nothing."""
    late, stolen = held(), held()
    Job.objects.filter(pk=late.id).update(processing_until=DatabaseNow(10))
    Job.objects.filter(pk=stolen.id).update(processing_token=uuid.uuid4())
    before = table()
    verdicts = settle((late, Succeeded("3")), (stolen, Succeeded("3")))
    assert [settled.verdict for settled in verdicts] == [Verdict.LOST] * 2
    assert table() == before


def test_in_a_group_each_by_its_own_rule(settings):
    """Task, then queue, then project; alike outcomes of different tasks, too."""
    settings.LEASEQUEUE = {
        "RETENTION": {"failed": 0},
        "QUEUES": {"brief": {"RETENTION": 0}},
    }

    def mine():
        """A task."""

    with toy(mine, name="tests.mine", retention=None):
        jobs = {
            (task, queue): held(task=task, queue=queue)
            for task in ("tests.mine", "tests.tasks.add")
            for queue in ("brief", "other")
        }
        last = held()
        verdicts = settle(
            *((job, Succeeded("3")) for job in jobs.values()), (last, Failed(ERROR))
        )
    assert verdicts == [WRITTEN] * 5
    gone = {lane for lane, job in jobs.items() if row(job) is None}
    assert gone == {("tests.tasks.add", "brief")}
    assert row(last) is None
    assert all(values["status"] == "succeeded" for values in table().values())


def test_a_task_that_is_not_known_here_may_have_rules_of_its_own():
    job = held(task="shop.tasks.elsewhere")
    assert settle((job, Succeeded("3"))) == [WRITTEN]
    assert row(job)["status"] == "succeeded"


# --- Dedup ids


def test_a_row_stays_while_its_window_lasts():
    job = held(dedup_id="a", dedup_until=DatabaseNow(600))
    assert settle((job, Succeeded("3"))) == [WRITTEN]
    assert row(job)["status"] == "succeeded"


@pytest.mark.parametrize(
    "rules",
    [{"dedup_hold": "finished"}, {"dedup_hold": "removed"}, {"dedup_until": -1}],
    ids=str,
)
def test_an_id_without_a_window_goes_along(rules):
    """But on InnoDB, where that could wait for others, it is left to prune."""
    if "dedup_until" in rules:
        rules = {"dedup_until": DatabaseNow(-1)}
    job = held(dedup_id="a", **rules)
    assert settle((job, Succeeded("3"))) == [WRITTEN]
    left = row(job)
    assert (left is None) is (connection.vendor != "mysql")
    assert left is None or left["status"] == "succeeded"
    Job.objects.prune()
    assert table() == {}


def test_one_that_has_given_its_id_away_goes():
    job = held(released_dedup_id="a", dedup_until=DatabaseNow(600))
    settle((job, Succeeded("3")))
    assert row(job) is None


# --- The answer that never came


@contextlib.contextmanager
def losing_the_answer(monkeypatch):
    """Let a settle commit and the connection break before it hears of it."""
    real = db.write_transaction

    @contextlib.contextmanager
    def lost(rows):
        with real(rows):
            yield
        raise connection_lost()

    with monkeypatch.context() as patch:
        patch.setattr(db, "write_transaction", lost)
        with pytest.raises(OperationalError):
            yield


def test_an_answer_that_was_lost(monkeypatch):
    """A settle recognises its own removal, as long as the lease lasts, and no other."""
    job = held()
    with losing_the_answer(monkeypatch):
        settle((job, Succeeded("3")))
    assert row(job) is None
    assert settle((job, Succeeded("3"))) == [WRITTEN]
    asked = held()
    Job.objects.filter(pk=asked.id).update(cancel_requested_at=DatabaseNow())
    retry = asked, RetryLater(60, ERROR)
    with losing_the_answer(monkeypatch):
        settle(retry)
    assert settle(retry) == [CANCELLED]
    removed_by_hand = held()
    Job.objects.filter(pk=removed_by_hand.id).delete()
    [settled] = settle((removed_by_hand, Succeeded("3")))
    assert settled.verdict is Verdict.LOST
    job.renewed_at -= 280
    [settled] = settle((job, Succeeded("3")))
    assert settled.verdict is Verdict.LOST
