"""worker.runner on real rows: claimed, run and settled, on each database."""

import json
import sys
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction

from django_leasequeue import Discard, Retry, Snooze
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.states import Status
from django_leasequeue.transitions.settle import Verdict
from django_leasequeue.worker import runner
from tests.claims import NAME, claim, context_of, registered
from tests.factories import JobFactory
from tests.models import Effect

pytestmark = pytest.mark.django_db(transaction=True)


def work(function, **options):
    """Run the next job as a worker does, whenever it is due; return its row afterwards."""
    Job.objects.pending().update(run_at=DatabaseNow())
    job = claim()
    assert job, "there is nothing to claim"
    with registered(function, **options):
        outcome = runner.run(job, context_of(job))
    (settled,) = Job.objects.settle([(job, outcome)])
    assert settled.verdict is Verdict.WRITTEN
    return Job.objects.get(pk=job.id)


def lose_worker():
    """As if the worker that has the job died: its lease is past."""
    Job.objects.update(processing_until=DatabaseNow(-timedelta(seconds=1)))


def execute(sql, params=()):
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def make(*args, **fields):
    return JobFactory(**{"task": NAME, "args": list(args), **fields})


def fail(message="as asked"):
    raise ValueError(message)


def test_a_success_is_stored():
    make(20, 22)
    job = work(lambda a, b: a + b)
    assert (job.status, job.result, job.attempts) == (Status.SUCCEEDED, 42, 1)


def test_a_failure_is_stored():
    make()
    job = work(fail)
    assert (job.status, job.attempts) == (Status.FAILED, 1)
    assert job.errors[0]["message"] == "as asked"


class OwnBase(BaseException):
    pass


def raising(error):
    def task():
        raise error

    return task


@pytest.mark.parametrize(
    "error",
    [OwnBase("odd"), MemoryError(), ExceptionGroup("several", [ValueError()])],
    ids=lambda error: type(error).__name__,
)
def test_case_071_exceptions_outside_the_usual_class_are_stored(error):
    make(max_attempts=2)
    job = work(raising(error))
    assert (job.status, job.attempts) == (Status.PENDING, 1)
    assert "Traceback" in job.errors[0]["traceback"]
    assert work(raising(error)).status == Status.FAILED


@pytest.mark.parametrize("code", [0, 3])
def test_case_072_exits_respect_the_limit(code):
    make(max_attempts=2)
    assert work(lambda: sys.exit(code)).status == Status.PENDING
    assert work(lambda: sys.exit(code)).status == Status.FAILED


LONG = {
    "20 MB": "x" * 20_000_000,
    "emoji": "\U0001f600" * 1_000_000,
    "nul": "a\0b" * 10_000,
    "surrogates": "\ud800" * 10_000,
}


@pytest.mark.parametrize("message", LONG.values(), ids=LONG)
def test_case_076_any_error_text_is_stored(message):
    make()
    job = work(lambda: fail(message))
    assert job.status == Status.FAILED
    assert 0 < len(job.errors[0]["message"]) <= 2_000


def test_case_079_unknown_tasks_wait_fail_and_block_nobody():
    names = ["tests.renamed", "no.such.module.job", "os.path", "__main__.job"]
    for name in names:
        make(task=name)
    for _ in range(11 * len(names)):
        work(fail)
    make(1)
    assert work(lambda a: a).status == Status.SUCCEEDED
    jobs = list(Job.objects.filter(task__in=names))
    assert {job.status for job in jobs} == {Status.FAILED}
    assert {job.attempts for job in jobs} == {0}
    assert [len(job.errors) for job in jobs] == [1] * len(names)
    assert {job.errors[0]["times"] for job in jobs} == {11}


def test_case_079_thirty_seconds_pass_before_the_next_look():
    make(task="tests.renamed")
    job = work(fail)
    wait = job.run_at - job.last_attempted_at
    assert timedelta(seconds=29) < wait < timedelta(seconds=150)


BROKEN = {
    "invalid": ("args", "[1,", "not JSON"),
    "no list": ("args", '{"a": 1}', "not a list"),
    "no object": ("kwargs", "[1]", "not a dict"),
    "missing": ("args", "[]", "missing a required argument"),
    "extra": ("args", "[1, 2]", "too many positional arguments"),
}


@pytest.mark.parametrize(("column", "text", "message"), BROKEN.values(), ids=BROKEN)
def test_case_081_a_stored_call_that_cannot_be_decoded_or_bound(column, text, message):
    make(1, max_attempts=2)
    execute(f"UPDATE leasequeue_job SET {column} = %s", [text])

    def status():
        return Job.objects.values_list("status", flat=True).get()

    for expected in (Status.PENDING, Status.FAILED):
        Job.objects.update(run_at=DatabaseNow())
        job = claim()
        with registered(lambda a: a):
            outcome = runner.run(job, context_of(job))
        assert message in outcome.error["message"]
        (settled,) = Job.objects.settle([(job, outcome)])
        assert settled.verdict is Verdict.WRITTEN
        assert status() == expected


def test_case_081_a_function_that_changed_since_the_dispatch():
    make(1, max_attempts=3)
    assert work(lambda a, b: a).status == Status.PENDING
    assert work(lambda a, b=2: a + b).result == 3


@pytest.mark.parametrize("end", ["raise", "return"])
def test_case_082_a_job_that_leaves_an_aborted_transaction(end):
    def task():
        execute("BEGIN")
        try:
            execute("SELECT nothing FROM nowhere")
        except DatabaseError:
            if end == "raise":
                raise

    make()
    job = work(task)
    assert job.status == Status.FAILED
    make(1)
    assert work(lambda a: Effect.objects.count()).status == Status.SUCCEEDED


@pytest.mark.parametrize("own_block", [False, True])
def test_case_084_a_callback_that_raises_is_a_failed_attempt(own_block):
    def task():
        if not own_block:
            transaction.on_commit(fail)
        else:
            with transaction.atomic():
                Effect.objects.create(name="committed")
                transaction.on_commit(fail)

    make()
    job = work(task)
    assert (job.status, job.attempts) == (Status.FAILED, 1)
    assert job.errors[0]["message"] == "as asked"
    assert Effect.objects.count() == own_block
    make()
    assert work(lambda: 1).status == Status.SUCCEEDED


@pytest.mark.parametrize("value", [object(), {1}, float("nan"), "a\0b", "\ud800"])
def test_case_087_a_value_that_cannot_be_stored(value):
    calls = []
    make(max_attempts=3)
    job = work(lambda: calls.append(1) or value)
    assert (job.status, job.result) == (Status.SUCCEEDED, None)
    assert calls == [1]


def test_case_087_a_value_as_long_as_allowed(settings):
    settings.LEASEQUEUE = {"MAX_RESULT_BYTES": 4_000_000}
    make()
    assert work(lambda: "x" * 3_999_998).result == "x" * 3_999_998
    make()
    assert work(lambda: "x" * 3_999_999).result is None


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_case_141_failures_end_at_the_limit(limit):
    calls = []

    def task():
        calls.append(1)
        fail()

    make(max_attempts=limit)
    statuses = [work(task).status for _ in range(limit)]
    assert statuses == [Status.PENDING] * (limit - 1) + [Status.FAILED]
    assert len(calls) == limit
    assert claim() == []


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_case_141_deaths_end_at_the_limit(limit):
    make(max_attempts=5)
    calls = []
    # In the first it may have had company, so that it only runs alone from then on.
    losses = limit + 2 if limit else 1
    for _ in range(losses):
        job = claim()
        with registered(lambda: None, max_recoveries=limit):
            runner.run(job, context_of(job))  # its outcome dies with the worker
        calls.append(job.recoveries)
        lose_worker()
    assert calls == list(range(losses))
    job = work(fail, max_recoveries=limit)
    assert (job.status, job.attempts) == (Status.FAILED, 0)
    assert job.errors[-1]["exception_class"].endswith("WorkersLost")
    lost = "1 worker was lost" if losses == 1 else f"{losses} workers were lost"
    assert lost in job.errors[-1]["message"]


def test_case_145_postponing_uses_up_no_attempt():
    make(max_attempts=3)
    for _ in range(10):
        job = work(raising(Snooze(60)))
        assert (job.status, job.attempts) == (Status.PENDING, 0)
        assert job.errors == []
    assert (work(fail).attempts, work(raising(Snooze(1))).attempts) == (1, 1)
    job = work(lambda: "done")
    assert (job.status, job.attempts, job.max_attempts) == (Status.SUCCEEDED, 2, 3)


def test_retry_waits_as_long_as_it_said():
    make(max_attempts=2)
    job = work(raising(Retry(timedelta(hours=1), reason="busy")))
    assert timedelta(minutes=59) < job.run_at - job.last_attempted_at
    assert job.errors[0]["message"] == "busy"


def test_discard_is_final():
    make(max_attempts=9)
    assert work(raising(Discard("no such order"))).status == Status.FAILED


def test_errors_are_json_and_tell_the_database_s_time():
    make()
    job = work(fail)
    (error,) = json.loads(json.dumps(job.errors))
    assert error["at"].endswith("+00:00")
    assert error["at"][:10] in {
        f"{moment:%Y-%m-%d}" for moment in (job.last_attempted_at, job.finished_at)
    }
