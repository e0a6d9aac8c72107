"""worker.atomic: a task's writes and its job's success commit together, or neither."""

import json
import subprocess
import sys
import textwrap
from datetime import timedelta

import pytest
from django.db import (
    DatabaseError,
    IntegrityError,
    OperationalError,
    connection,
    transaction,
)

from django_leasequeue import Discard, Retry, Snooze
from django_leasequeue.db import DatabaseNow
from django_leasequeue.errors import errors_with
from django_leasequeue.exceptions import JobRunAborted
from django_leasequeue.models import Job
from django_leasequeue.outcomes import (
    Failed,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.states import Status
from django_leasequeue.transitions.settle import Settled, Verdict
from django_leasequeue.worker import atomic
from tests.claims import NAME, claim, context_of, registered
from tests.factories import JobFactory
from tests.helpers import failing, in_thread, new_connection, worker_environment
from tests.models import Effect

pytestmark = pytest.mark.django_db(transaction=True)

ROW_LOCKS = connection.features.has_select_for_update


def settle(job, outcome):
    (settled,) = Job.objects.settle([(job, outcome)], with_writes=True)
    return settled


def write(name="done"):
    Effect.objects.create(name=name)


def names():
    return sorted(Effect.objects.values_list("name", flat=True))


def claimed_row(**fields):
    """A real job, claimed."""
    JobFactory(**{"task": NAME, "args": [], "max_attempts": 1, **fields})
    return claim()


def run(function, *, job=None, settle=settle, context=None, **options):
    job = job or claimed_row()
    with registered(function, atomic=True, **options):
        return atomic.run_and_settle(
            job, context or context_of(job), using="default", settle=settle
        )


def test_a_success_is_stored_with_what_the_task_wrote():
    inside = []

    def look_then_settle(job, outcome):
        inside.append(connection.in_atomic_block and names())
        return settle(job, outcome)

    ended = run(write, settle=look_then_settle)
    assert ended.outcome == Succeeded("null")
    assert ended.settled.verdict is Verdict.WRITTEN
    assert inside == [["done"]]
    assert names() == ["done"]
    job = Job.objects.get()
    assert (job.status, job.attempts) == (Status.SUCCEEDED, 1)


def test_nobody_sees_either_before_the_commit(second_connection):
    def look_then_settle(job, outcome):
        settled = settle(job, outcome)
        with second_connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM tests_effect")
            effects = cursor.fetchone()[0]
            cursor.execute("SELECT status FROM leasequeue_job")
            assert (effects, cursor.fetchone()[0]) == (0, "running")
        return settled

    # An uncommitted write must not keep readers out, which SQLite only promises with WAL.
    ended = run(write, settle=look_then_settle)
    assert ended.settled.verdict is Verdict.WRITTEN


def test_a_lost_lease_undoes_what_the_task_wrote():
    job = claimed_row()
    Job.objects.update(claims=2, worker="another worker")

    ended = run(write, job=job)
    assert ended.settled.verdict is Verdict.LOST
    assert ended.settled.holder == "another worker"
    assert names() == []
    assert Job.objects.get().status == Status.RUNNING


def test_a_lease_that_ended_meanwhile():
    """Row locks: refused. One write lock: nobody can have taken the job, so it counts."""

    def slow():
        write()
        Job.objects.update(processing_until=DatabaseNow(-1))

    ended = run(slow)
    if ROW_LOCKS:
        assert (ended.settled.verdict, names()) == (Verdict.LOST, [])
    else:
        assert (ended.settled.verdict, names()) == (Verdict.WRITTEN, ["done"])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(), Failed),
        (SystemExit(0), Failed),
        (Discard(), Failed),
        (Retry(5), RetryLater),
        (Snooze(5), Snoozed),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_anything_but_a_success_is_rolled_back_and_settled_afterwards(error, kind):
    def task():
        write()
        raise error

    job = claimed_row(max_attempts=2 if kind is RetryLater else 1)
    ended = run(task, job=job, settle=refuse)
    assert isinstance(ended.outcome, kind)
    assert ended.settled is None
    assert names() == []
    assert settle(job, ended.outcome).verdict is Verdict.WRITTEN


def refuse(job, outcome):
    raise AssertionError("nothing is to be settled")


def test_a_run_told_that_its_lease_is_lost_is_rolled_back():
    job = claimed_row()
    context = context_of(job)

    def task():
        write()
        context.lose("another worker has claimed it since")
        context.check()

    ended = run(task, job=job, context=context, settle=refuse)
    assert ended == (Released(lost=True), None)
    assert names() == []
    assert issubclass(JobRunAborted, Exception)


def test_a_job_that_cannot_be_called_begins_no_transaction():
    job = claimed_row(task="gone.away")
    ended = run(write, job=job, settle=refuse)
    assert isinstance(ended.outcome, RetryLater)
    assert ended.settled is None


def test_a_task_that_only_returns_a_value():
    ended = run(lambda: {"total": 3})
    assert ended.outcome == Succeeded('{"total":3}')
    assert Job.objects.get().result == {"total": 3}


# --- What each statement sees


@pytest.mark.skipif(not ROW_LOCKS, reason="one writer at a time: nobody can renew")
def test_a_renewal_while_the_task_runs_does_not_hinder_its_settle(second_connection):
    level = "TRANSACTION ISOLATION LEVEL REPEATABLE READ"
    if connection.vendor == "postgresql":
        level = f"CHARACTERISTICS AS {level}"
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION {level}")

    def task():
        assert Job.objects.get().claims == 1  # under a snapshot it would begin here
        with second_connection.cursor() as cursor:
            cursor.execute("UPDATE leasequeue_job SET suppressed = 7")
        write()
        return Job.objects.get().suppressed

    try:
        ended = run(task)
    finally:
        connection.close()
    assert ended.outcome == Succeeded("7")
    assert ended.settled.verdict is Verdict.WRITTEN


@pytest.mark.skipif(ROW_LOCKS, reason="there is one lock for all only on SQLite")
@pytest.mark.parametrize("mode", [None, "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_the_only_write_lock_is_taken_before_the_task_begins(mode, monkeypatch):
    """Otherwise a task that reads first could not write after somebody else did."""
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "transaction_mode", mode)
    connection.close()

    def task():
        assert names() == []
        with new_connection() as other:
            other.settings_dict["OPTIONS"]["timeout"] = 0
            with pytest.raises(OperationalError, match="locked"), other.cursor() as c:
                c.execute("UPDATE leasequeue_job SET suppressed = 7")
        write()

    try:
        ended = run(task)
        assert connection.transaction_mode == mode
    finally:
        connection.close()
    assert ended.outcome == Succeeded("null")
    assert names() == ["done"]


# --- Trouble at the end


@pytest.mark.skipif(not ROW_LOCKS, reason="no rows are locked on SQLite")
def test_a_row_that_somebody_holds_locked_is_waited_for(monkeypatch):
    seen = []

    def look(job, outcome):
        settled = settle(job, outcome)
        seen.append(settled.verdict)
        if settled.verdict is Verdict.BUSY and len(seen) == 2:
            holder.rollback()
        return settled

    with new_connection() as holder:
        job = claimed_row()
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute("SELECT id FROM leasequeue_job FOR UPDATE")
        ended = run(write, job=job, settle=look)
    assert seen == [Verdict.BUSY, Verdict.BUSY, Verdict.WRITTEN]
    assert ended.settled.verdict is Verdict.WRITTEN
    assert names() == ["done"]


class _Cause(Exception):
    def __init__(self, sqlstate):
        self.sqlstate = sqlstate


def database_error(kind):
    """A deadlock, or a lost connection, as this database tells it."""
    numbers = {
        "deadlock": (1213, "40P01", "database is locked"),
        "lost": (2013, "57P01", "gone"),
    }
    number, state, text = numbers[kind]
    if connection.vendor == "mysql":
        return OperationalError(number, text)
    error = OperationalError(text)
    error.__cause__ = _Cause(state)
    return error


def test_a_deadlock_in_the_settle_is_no_attempt():
    job = claimed_row()
    with failing(database_error("deadlock"), match="UPDATE", times=99) as refused:
        # The task's own statement is no UPDATE.
        ended = run(write, job=job)
    assert refused
    assert isinstance(ended.outcome, RetryLater)
    assert ended.outcome.counted is False
    assert ended.outcome.delay <= timedelta(seconds=2)
    assert ended.settled is None
    assert names() == []


def test_endless_deadlocks_are_a_failed_attempt_in_the_end():
    job, outcomes = claimed_row(), []
    for _ in range(11):
        with failing(database_error("deadlock"), match="UPDATE", times=99):
            outcomes.append(run(write, job=job).outcome)
        job.errors_text = json.dumps(errors_with(job.errors, outcomes[-1].error, 10))
    assert [type(o) for o in outcomes] == [RetryLater] * 10 + [Failed]
    assert outcomes[-1].counted is True


def assert_no_attempt(job, ended):
    assert isinstance(ended.outcome, RetryLater)
    assert ended.outcome.counted is False
    assert ended.settled is None
    assert names() == []
    assert settle(job, ended.outcome).verdict is Verdict.WRITTEN
    assert Job.objects.get().status == Status.PENDING


@pytest.mark.skipif(not ROW_LOCKS, reason="SQLite has no connection to lose")
def test_a_connection_lost_in_the_settle_is_no_attempt():
    job = claimed_row()
    with failing(database_error("lost"), match="UPDATE", times=99):
        ended = run(write, job=job)
    assert_no_attempt(job, ended)


@pytest.mark.skipif(not ROW_LOCKS, reason="SQLite has no connection to lose")
def test_a_connection_lost_at_the_begin_is_no_attempt(monkeypatch):
    job, called = claimed_row(), []

    def refuse(autocommit, **options):
        raise database_error("lost")

    with monkeypatch.context() as patched:
        patched.setattr(connection, "set_autocommit", refuse)
        ended = run(lambda: called.append(1), job=job)
    assert called == []
    assert_no_attempt(job, ended)


def commits(monkeypatch, error, *, after=False):
    """Make the next commit raise; `after` it was done, so that only its answer is lost."""
    real, calls = connection.commit, []

    def commit():
        calls.append(1)
        if len(calls) == 1:
            if after:
                real()
            raise error
        return real()

    monkeypatch.setattr(connection, "commit", commit)


def test_a_commit_that_is_refused_is_a_failed_attempt(monkeypatch):
    job = claimed_row()
    commits(monkeypatch, IntegrityError("a deferred constraint"))
    ended = run(write, job=job)
    assert isinstance(ended.outcome, Failed)
    assert ended.outcome.error["message"] == "a deferred constraint"
    assert ended.settled is None
    assert names() == []
    assert settle(job, ended.outcome).verdict is Verdict.WRITTEN


@pytest.mark.skipif(not ROW_LOCKS, reason="SQLite has no connection to lose")
def test_a_commit_of_which_only_the_answer_was_lost_is_recognised(monkeypatch):
    job = claimed_row()
    commits(monkeypatch, database_error("lost"), after=True)
    ended = run(write, job=job)
    assert ended == (Succeeded("null"), Settled(Verdict.WRITTEN))
    assert names() == ["done"]


@pytest.mark.skipif(not ROW_LOCKS, reason="SQLite has no connection to lose")
def test_a_commit_lost_with_its_connection_is_no_attempt(monkeypatch):
    job = claimed_row()
    commits(monkeypatch, database_error("lost"))
    ended = run(write, job=job)
    assert_no_attempt(job, ended)


@pytest.mark.skipif(not ROW_LOCKS, reason="SQLite has no connection to lose")
def test_a_lost_commit_that_cannot_be_looked_for_is_no_attempt(monkeypatch):
    job = claimed_row()
    commits(monkeypatch, database_error("lost"))
    with failing(database_error("lost"), match="LIMIT 1", times=9) as looks:
        ended = run(write, job=job)
    assert looks
    assert_no_attempt(job, ended)


@pytest.mark.parametrize("error", [ValueError("late"), SystemExit(3)], ids=type)
def test_case_084_a_callback_that_raises_after_the_commit(error, caplog):
    called = []

    def fail():
        raise error

    def task():
        write()
        transaction.on_commit(lambda: called.append("first"))
        transaction.on_commit(fail)

    ended = run(task)
    assert ended.settled.verdict is Verdict.WRITTEN
    assert called == ["first"]
    assert names() == ["done"]
    assert Job.objects.get().status == Status.SUCCEEDED
    assert "a callback that it gave to on_commit() raised" in caplog.text
    assert run(write).settled.verdict is Verdict.WRITTEN


def test_callbacks_of_a_run_that_is_undone_are_not_called():
    called = []

    def task():
        transaction.on_commit(lambda: called.append(1))
        raise ValueError

    run(task)
    assert called == []


# --- What the task does to the transaction


def test_a_block_left_open_is_a_failed_attempt():
    def task():
        transaction.atomic().__enter__()
        write()

    ended = run(task)
    assert ended.outcome.error["exception_class"].endswith("TransactionLeftOpen")
    assert names() == []
    assert not connection.in_atomic_block


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_transaction_left_open_on_another_database_is_a_failed_attempt():
    def task():
        write()
        transaction.atomic(using="other").__enter__()
        Effect.objects.using("other").create(name="lost")

    ended = run(task)
    assert "open on other" in ended.outcome.error["message"]
    assert names() == []
    assert Effect.objects.using("other").count() == 0


def test_an_error_swallowed_without_a_savepoint_cannot_be_committed():
    def task():
        write()
        try:
            with transaction.atomic(savepoint=False):
                raise IntegrityError("swallowed")
        except IntegrityError:
            pass

    ended = run(task)
    assert isinstance(ended.outcome, Failed)
    assert "TransactionManagementError" in ended.outcome.error["exception_class"]
    assert names() == []


def test_case_082_a_bad_statement_swallowed_by_an_atomic_task():
    def task():
        write()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT nothing FROM nowhere")
        except DatabaseError:
            pass

    job = claimed_row()
    ended = run(task, job=job)
    # PostgreSQL refuses everything after it; for the others it never was in the way.
    aborted = not isinstance(ended.outcome, Succeeded)
    assert aborted is (connection.vendor == "postgresql")
    assert names() == ([] if aborted else ["done"])
    if aborted:
        assert settle(job, ended.outcome).verdict is Verdict.WRITTEN


def test_it_runs_inside_a_transaction_of_the_caller():
    job = claimed_row()
    with transaction.atomic():
        ended = run(write, job=job)
        assert ended.settled.verdict is Verdict.WRITTEN
        transaction.set_rollback(True)
    assert names() == []
    assert Job.objects.get().status == Status.RUNNING


# --- Killed in between


SCRIPT = """
    import os, signal, sys
    import django
    django.setup()
    from django_leasequeue.models import Job
    from django_leasequeue.worker import atomic
    from tests.claims import claim, context_of, registered
    from tests.models import Effect

    def task():
        Effect.objects.create(name="killed")

    def settle_then_die(job, outcome):
        (settled,) = Job.objects.settle([(job, outcome)])
        print(settled.verdict.value, Effect.objects.count(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    job = claim()
    with registered(task, atomic=True):
        atomic.run_and_settle(
            job, context_of(job), using="default", settle=settle_then_die
        )
"""


def test_killed_between_the_settle_and_the_commit_neither_is_left():
    JobFactory(task=NAME, args=[])
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        env=worker_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert died.returncode == -9, died.stderr
    assert died.stdout == "written 1\n"
    assert names() == []
    job = Job.objects.get()
    assert (job.status, job.attempts) == (Status.RUNNING, 0)
    # The lease ends, and the next worker runs it once more, whole.
    Job.objects.update(processing_until=DatabaseNow(-timedelta(seconds=1)))
    again = claim()
    assert (again.id, again.recoveries) == (job.id, 1)
    assert run(write, job=again).settled.verdict is Verdict.WRITTEN
    assert names() == ["done"]


def test_a_fault_of_the_worker_itself_is_a_failed_attempt(monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("a fault of ours")

    job = claimed_row()
    monkeypatch.setattr(atomic, "prepare", broken)
    ended = run(write, job=job, settle=refuse)
    assert isinstance(ended.outcome, Failed)
    assert ended.settled is None
    assert "could not be run" in caplog.text


def test_a_database_that_is_busy_at_the_start_is_no_attempt():
    if ROW_LOCKS:
        pytest.skip("only SQLite takes a lock at the start")
    job = claimed_row()
    with failing(OperationalError("database is locked"), match="BEGIN"):
        ended = run(write, job=job, settle=refuse)
    assert isinstance(ended.outcome, RetryLater)
    assert ended.outcome.counted is False


def test_in_a_thread_of_the_worker():
    job = claimed_row()
    with in_thread(lambda: run(write, job=job)) as ended:
        assert ended.result().settled.verdict is Verdict.WRITTEN
    assert names() == ["done"]
