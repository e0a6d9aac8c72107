"""worker.connections and worker.forks: what a job does to its connections ends with it."""

import contextlib
import logging
import multiprocessing
import os
import sys
from unittest import mock

import pytest
from asgiref.sync import sync_to_async
from django.db import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.test.utils import CaptureQueriesContext

from django_leasequeue import Retry, Snooze
from django_leasequeue.db import transactions
from django_leasequeue.outcomes import Failed, RetryLater, Snoozed, Succeeded
from django_leasequeue.worker import connections as hygiene
from django_leasequeue.worker.connections import JobConnections
from tests.claims import arun, run
from tests.helpers import failing, in_thread, together
from tests.models import Effect

# Connections as a worker's threads have them: in autocommit, not in a test's transaction.
pytestmark = pytest.mark.django_db(transaction=True)

FORKS = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def kept_open(monkeypatch):
    """As with CONN_MAX_AGE None: what a job leaves behind meets the next job."""
    for alias in connections:
        monkeypatch.setitem(connections[alias].settings_dict, "CONN_MAX_AGE", None)
        connections[alias].close()


def execute(sql, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(sql)


def names():
    return sorted(Effect.objects.values_list("name", flat=True))


def write(name):
    Effect.objects.create(name=name)


def is_clean():
    """Whether the connection is in no transaction, and what it writes is committed."""
    write("probe")
    with mock.patch.object(connection, "connection", connection.connection):
        seen = together(1, lambda _: Effect.objects.filter(name="probe").count())
    Effect.objects.filter(name="probe").delete()
    return (
        seen == [1] and connection.get_autocommit() and not connection.in_atomic_block
    )


def begin_and_write():
    execute("BEGIN")
    write("lost")


def enter_and_write():
    transaction.atomic().__enter__()
    write("lost")


def switch_off_and_write():
    transaction.set_autocommit(False)
    write("lost")


LEFT = [begin_and_write, enter_and_write, switch_off_and_write]


@pytest.mark.parametrize("leave", LEFT)
def test_case_082_a_transaction_left_open_is_rolled_back_and_fails_the_job(leave):
    outcome = run(leave, max_attempts=2)
    assert isinstance(outcome, RetryLater)
    assert outcome.counted
    assert outcome.error["exception_class"].endswith("TransactionLeftOpen")
    assert "a transaction open on default" in outcome.error["message"]
    assert names() == []
    assert is_clean()


@pytest.mark.parametrize("leave", LEFT)
def test_a_transaction_left_open_is_found_on_a_new_connection(leave):
    def work():
        return run(leave)

    with in_thread(work) as first:
        assert first.result().error["exception_class"].endswith("TransactionLeftOpen")
    assert names() == []


def test_a_thread_is_asked_once_for_its_connections_and_hears_of_new_ones():
    def work():
        assert isinstance(run(lambda: None), Succeeded)
        with mock.patch.object(connections, "all", side_effect=AssertionError):
            assert isinstance(run(lambda: None), Succeeded)
            lost = run(begin_and_write)
            assert lost.error["exception_class"].endswith("TransactionLeftOpen")
            return run(lambda: None)

    with in_thread(work) as first:
        assert isinstance(first.result(), Succeeded)
    assert names() == []


@pytest.mark.parametrize("leave", LEFT)
def test_what_the_task_raised_is_told_rather_than_what_it_left(leave, caplog):
    def task(end):
        leave()
        raise {"error": ValueError("as asked"), "snooze": Snooze(5), "retry": Retry(5)}[
            end
        ]

    failed, snoozed = run(task, "error"), run(task, "snooze")
    assert failed.error["message"] == "as asked"
    assert isinstance(snoozed, Snoozed)
    assert isinstance(run(task, "retry", max_attempts=2), RetryLater)
    assert caplog.text.count("also left a transaction open on default") == 3
    assert names() == []
    assert is_clean()


def bad_statement():
    try:
        execute("SELECT nothing FROM nowhere")
    except DatabaseError:
        return
    raise AssertionError("it was to fail")


@pytest.mark.parametrize("end", ["raise", "return"])
def test_case_082_an_aborted_transaction_does_not_reach_the_next_job(end):
    def task():
        execute("BEGIN")
        write("lost")
        bad_statement()
        if end == "raise":
            raise ValueError("as asked")

    outcome = run(task)
    assert isinstance(outcome, Failed)
    told = outcome.error["exception_class"]
    assert told.endswith("ValueError" if end == "raise" else "TransactionLeftOpen")
    assert run(write, "next") == Succeeded("null")
    assert names() == ["next"]


def test_case_082_an_error_swallowed_inside_atomic_leaves_nothing():
    def task():
        with transaction.atomic():
            write("lost")
            with contextlib.suppress(IntegrityError):
                Effect.objects.create(id=Effect.objects.get().id, name="twice")

    assert run(task) == Succeeded("null")
    assert run(write, "next") == Succeeded("null")
    assert names() == ["next"]


def test_autocommit_left_off_with_nothing_open_is_no_failure():
    def task():
        transaction.set_autocommit(False)
        write("kept")
        transaction.commit()

    assert run(task) == Succeeded("null")
    assert names() == ["kept"]
    assert is_clean()


def test_a_transaction_begun_and_ended_by_hand_is_fine():
    def task():
        begin_and_write()
        execute("COMMIT")

    assert run(task) == Succeeded("null")
    assert names() == ["lost"]


def test_several_databases_are_named():
    def task():
        for alias in ("default", "other"):
            execute("BEGIN", using=alias)
            Effect.objects.using(alias).create(name="lost")

    message = run(task).error["message"]
    assert "open on default, other" in message or "open on other, default" in message
    assert Effect.objects.using("other").count() == 0


test_several_databases_are_named.pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "other"])
]


def test_what_the_database_says_of_a_transaction():
    assert transactions.open_transaction(connection) is False
    execute("BEGIN")
    assert transactions.open_transaction(connection) is True
    execute("ROLLBACK")
    assert transactions.open_transaction(connection) is False
    connection.close()
    assert transactions.open_transaction(connection) is False


@pytest.mark.parametrize(
    ("sql", "may"),
    [
        ("SELECT 1", False),
        ("INSERT INTO a VALUES (1)", False),
        ("SAVEPOINT s1", False),
        ("BEGIN", True),
        ("start transaction", True),
        ("SET autocommit = 0", True),
        ("CALL anything()", True),
        ("SELECT 1; BEGIN", True),
        ("/* why */ BEGIN", True),
    ],
)
def test_only_plain_statements_are_above_suspicion(sql, may):
    assert transactions.may_begin_transaction(sql) is may


# --- What it costs


def test_a_job_that_uses_no_connection_costs_no_statement():
    connection.ensure_connection()
    with CaptureQueriesContext(connection) as seen, _asked() as asked:
        run(lambda: 1)
    assert len(seen) == 0
    assert asked() == 0


def test_a_job_of_plain_statements_costs_no_other():
    def task():
        write("a")
        with transaction.atomic():
            Effect.objects.filter(name="a").update(name="b")
        return Effect.objects.count()

    run(task)
    connection.ensure_connection()
    with CaptureQueriesContext(connection) as seen, _asked() as asked:
        assert run(task) == Succeeded("2")
    own = [
        q for q in seen.captured_queries if q["sql"].startswith(("INS", "UPD", "SEL"))
    ]
    assert len(own) == 3
    assert asked() == 0


def _asked():
    """Count the questions that go to the server."""
    driver_asks = not transactions.tells_open_transaction(connection)
    patched = mock.patch.object(
        transactions, "open_transaction", wraps=transactions.open_transaction
    )

    class Asked:
        def __enter__(self):
            self.mock = patched.__enter__()
            return lambda: self.mock.call_count if driver_asks else 0

        def __exit__(self, *error):
            patched.__exit__(*error)

    return Asked()


def test_the_log_of_statements_does_not_grow_from_job_to_job(settings):
    settings.DEBUG = True
    for _ in range(3):
        run(write, "a")
    assert len(connection.queries) < 4


# --- A run inside somebody's transaction


def test_a_run_inside_a_transaction_leaves_it_alone():
    with transaction.atomic():
        write("outer")
        assert run(write, "inner") == Succeeded("null")
        assert connection.in_atomic_block
        write("outer too")
    assert names() == ["inner", "outer", "outer too"]


def test_a_block_left_open_inside_a_transaction_is_undone_alone():
    with transaction.atomic():
        write("outer")
        outcome = run(enter_and_write)
        assert outcome.error["exception_class"].endswith("TransactionLeftOpen")
        write("outer too")
    assert names() == ["outer", "outer too"]
    assert is_clean()


def test_a_block_without_savepoint_left_open_undoes_the_transaction():
    def task():
        transaction.atomic(savepoint=False).__enter__()
        write("lost")

    with transaction.atomic():
        write("outer")
        outcome = run(task)
        assert outcome.error["exception_class"].endswith("TransactionLeftOpen")
    assert names() == []
    assert is_clean()


def test_a_block_left_open_that_cannot_be_undone_undoes_the_transaction():
    with transaction.atomic():
        write("outer")
        with failing(OperationalError("no"), match="ROLLBACK TO"):
            outcome = run(enter_and_write)
        assert outcome.error["exception_class"].endswith("TransactionLeftOpen")
    assert names() == []
    assert is_clean()


def test_a_transaction_by_hand_around_a_run_is_left_alone():
    transaction.set_autocommit(False)
    try:
        write("outer")
        assert run(write, "inner") == Succeeded("null")
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)
    assert names() == []


def test_a_project_without_autocommit_starts_each_job_anew(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)

    def work():
        def task(commit):
            write("kept" if commit else "lost")
            if commit:
                transaction.commit()

        return run(task, True), run(task, False)

    try:
        assert work() == (Succeeded("null"), Succeeded("null"))
    finally:
        connection.close()
        monkeypatch.undo()
    assert names() == ["kept"]


# --- Broken connections


def kill(victim):
    """End a connection on the server's side; where there is no server, on ours."""
    asks = {
        "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%s)"),
        "mysql": ("SELECT CONNECTION_ID()", "KILL %s"),
    }
    if victim.vendor not in asks:
        victim.connection.close()
        return
    which, end = asks[victim.vendor]
    with victim.cursor() as cursor:
        cursor.execute(which)
        (number,) = cursor.fetchone()

    def do(_):
        with connection.cursor() as cursor:
            cursor.execute(end, [number])

    together(1, do)


BROKEN = (OperationalError, InterfaceError, DatabaseError)


def test_case_095_a_connection_that_died_while_idle_does_not_fail_a_job(monkeypatch):
    monkeypatch.setattr(hygiene, "_IDLE", -1)
    assert run(write, "a") == Succeeded("null")
    kill(connection)
    assert run(write, "b") == Succeeded("null")
    assert names() == ["a", "b"]


def test_the_test_of_an_idle_connection_is_over_after_the_job(monkeypatch):
    monkeypatch.setattr(hygiene, "_IDLE", -1)
    write("a")
    run(lambda: 1)
    assert connection.health_check_enabled is False


def test_a_connection_that_died_in_a_job_does_not_fail_the_next():
    def task():
        write("a")
        kill(connection)
        try:
            write("b")
        except BROKEN:
            return "noticed"

    assert run(task) == Succeeded('"noticed"')
    assert run(write, "c") == Succeeded("null")
    assert names() == ["a", "c"]


@pytest.mark.parametrize("leave", LEFT)
def test_a_transaction_that_died_with_its_connection(leave):
    def task():
        leave()
        kill(connection)

    run(task)
    assert run(write, "next") == Succeeded("null")
    assert names() == ["next"]


def test_a_connection_that_cannot_be_asked_is_dropped(monkeypatch, caplog):
    def broken(_):
        raise OperationalError("gone")

    monkeypatch.setattr(transactions, "open_transaction", broken)
    caplog.set_level(logging.DEBUG)
    write("a")
    with JobConnections() as mine:
        begin_and_write()
    monkeypatch.undo()
    assert mine.left_open == []
    assert "is dropped: gone" in caplog.text
    assert is_clean()
    assert names() == ["a"]


# --- async def


async def awrite(name):
    await Effect.objects.acreate(name=name)


def test_an_async_job_writes_and_closes_its_connection():
    opened = []

    async def task():
        await awrite("a")
        opened.append(await sync_to_async(lambda: connections["default"])())

    assert arun(task) == Succeeded("null")
    assert opened[0] is not connections["default"]
    assert opened[0].connection is None
    assert names() == ["a"]


@pytest.mark.parametrize("leave", LEFT)
@pytest.mark.parametrize("by", [run, arun])
def test_an_async_job_leaves_no_transaction_open(by, leave):
    async def task():
        await sync_to_async(leave)()

    outcome = by(task)
    assert outcome.error["exception_class"].endswith("TransactionLeftOpen")
    assert names() == []
    assert is_clean()


# --- Forks


def in_fork(function):
    """Run in a process that multiprocessing forks; return its exit code."""
    process = multiprocessing.get_context("fork").Process(target=function)
    process.start()
    process.join(60)
    return process.exitcode


def leave_by_exit(function):
    """Run in a bare fork that ends by sys.exit(), as a script would."""
    pid = os.fork()
    if pid == 0:
        function()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def close_all():
    connections.close_all()


@FORKS
@pytest.mark.parametrize("fork", [in_fork, leave_by_exit])
@pytest.mark.parametrize("child", [lambda: write("child"), close_all, int])
def test_case_085_a_forked_child_does_not_share_the_socket(fork, child):
    def task():
        write("before")
        same = connection.connection
        code = fork(child)
        write("after")
        return [code, connection.connection is same]

    # The fork inherits the connections of other threads as well, this one's among them.
    write("other before")
    assert together(1, lambda _: run(task)) == [Succeeded("[0,true]")]
    write("other after")
    ours = {"before", "after", "other before", "other after"}
    assert set(names()) - {"child"} == ours


@FORKS
@pytest.mark.parametrize("fork", [in_fork, leave_by_exit])
def test_case_085_a_fork_inside_a_transaction(fork):
    def task():
        with transaction.atomic():
            write("before")
            code = fork(
                lambda: write("child") if connection.vendor != "sqlite" else None
            )
            write("after")
        return code

    assert run(task) == Succeeded("0")
    assert {"before", "after"} <= set(names())
