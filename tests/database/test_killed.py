"""worker.killed: what a child is told of a run that was killed in another, and what it calls."""

import json
from datetime import timedelta

import pytest

from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, Failed, RetryLater
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.killed import Killed
from django_leasequeue.worker.overdue import Overdue
from django_leasequeue.worker.pipes import LONGEST_LINE
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.stop import Level
from django_leasequeue.worker.timed import TimedRun
from tests.executing import Working
from tests.factories import JobFactory
from tests.helpers import eventually
from tests.road import toy
from tests.workers import options

pytestmark = pytest.mark.django_db(transaction=True)

ERROR = {"attempt": 3, "worker": "host:killed", "message": "x" * 1000}


def told(killed):
    """What arrives at the other end of the pipe."""
    line = json.dumps(killed.to_message())
    assert len(line) < LONGEST_LINE
    return Killed.from_message(json.loads(line))


@pytest.mark.parametrize(
    "outcome", [Failed(ERROR), RetryLater(timedelta(seconds=1.5), ERROR), Cancelled()]
)
def test_a_child_is_told_the_outcome(outcome):
    killed = told(Killed(7, 2, outcome))
    assert (killed.job_id, killed.round, killed.outcome) == (7, 2, outcome)


@pytest.fixture
def working():
    working = Working()
    yield working
    working.executor.close(60, 0)


def hand_over(working, killed):
    """Have the executor call for it; return once that is over."""
    working.running.add_killed(told(killed))
    # What is not over keeps a drain and a stop waiting.
    assert len(working.running) == 1
    working.executor.call_for_killed()
    eventually(lambda: not len(working.running))


def test_its_callback_gets_the_run_that_was_killed(working):
    called = []
    with toy(lambda: None, name="toy.slow", on_failure=called.append):
        job = JobFactory(
            task="toy.slow", args=[1], meta={"by": 3}, failed=True, attempts=9
        )
        hand_over(working, Killed(job.pk, 1, Failed(ERROR)))
    [ended] = called
    assert (ended.job_id, ended.task, ended.error) == (job.pk, "toy.slow", ERROR)
    assert (ended.args, ended.meta, ended.retry_in) == ([1], {"by": 3}, None)
    assert (ended.attempt, ended.worker) == (3, "host:killed")


@pytest.mark.parametrize("more", [{"next_args": [2], "next_kwargs": {}}, {}])
def test_it_gets_no_arguments_of_another_round(working, more):
    called = []
    with toy(lambda *args: None, name="toy.slow", on_retry=called.append):
        job = JobFactory(
            task="toy.slow", args=[1], meta={"by": 3}, leased=True, max_attempts=3
        )
        Job.objects.filter(pk=job.pk).update(rerun=True, **more)
        run = TimedRun(job.processing_token, job.pk, 1.0, 0.0, 5.0)
        _, killed = Overdue(run, 2.0).settle("default")
        hand_over(working, killed)
    [ended] = called
    assert (ended.args, ended.kwargs, ended.meta) == (None, None, {"by": 3})
    assert (ended.attempt, ended.retry_in) == (1, timedelta(seconds=5))


def test_a_worker_that_stops_calls_what_it_has_heard_of():
    called = []
    worker = InProcess(options(), Progress())
    worker._running.add_killed(Killed(JobFactory(task="toy").pk, 1, Failed(ERROR)))
    worker.stop.request(Level.GRACEFUL, "the test says so")
    with toy(lambda: None, name="toy", on_failure=called.append):
        assert worker.run() == 0
    assert len(called) == 1


def test_a_row_that_is_gone_or_of_an_unknown_task_has_nothing_to_call(working, caplog):
    hand_over(working, Killed(JobFactory(task="renamed").pk, 1, Failed(ERROR)))
    hand_over(working, Killed(987_654_321, 1, Failed(ERROR)))
    assert not [record for record in caplog.records if record.exc_info]


def test_a_row_that_cannot_be_read_ends_no_thread(working, monkeypatch, caplog):
    monkeypatch.setattr("django_leasequeue.worker.killed.read_claimed", None)
    for number in (1, 2):
        hand_over(working, Killed(number, 1, Failed(ERROR)))
    told = [record.getMessage() for record in caplog.records if record.exc_info]
    assert [line.split(":")[0] for line in told] == ["Job 1", "Job 2"]


def test_what_a_worker_hears_at_its_very_end_is_called_or_told_of(caplog):
    called, working = [], Working()
    late = Killed(987_654_321, 1, Failed(ERROR))

    def call(ended):
        called.append(ended.job_id)
        working.running.add_killed(late)

    with toy(lambda: None, name="toy", on_failure=call):
        job = JobFactory(task="toy")
        working.running.add_killed(Killed(job.pk, 1, Failed(ERROR)))
        working.executor.close(60, 0)
    assert called == [job.pk]
    [text] = [r.getMessage() for r in caplog.records if "callbacks" in r.getMessage()]
    assert text == (
        "The worker stops, and callbacks are not called: those of job 987654321."
    )
