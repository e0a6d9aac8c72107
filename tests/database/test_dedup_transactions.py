"""Dedup in transactions: every error x database x in or out of atomic, as docs/dedup.md says.

The callers are threads with real transactions. What can't be brought about at will, such as
a deadlock of three, is raised in the place of a statement.
"""

from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import contextmanager
from unittest import mock

import pytest
from django.conf import settings
from django.db import (
    Error,
    IntegrityError,
    OperationalError,
    connection,
    transaction,
)
from django.http import HttpResponse
from django.urls import path

from django_leasequeue import Dedup
from django_leasequeue.exceptions import DedupConflict, DispatchConflict
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.transitions.dispatch import batch, passes
from django_leasequeue.transitions.dispatch import owner as owners
from tests import readme
from tests.callers import caller
from tests.factories import JobFactory
from tests.helpers import failing
from tests.models import Effect
from tests.road import (
    claim,
    connection_lost,
    row,
    statements,
    table,
    time_of_reruns,
)
from tests.tasks import add, record_run

pytestmark = pytest.mark.django_db(transaction=True)

DATABASE = settings.DATABASE
on_servers = pytest.mark.skipif(DATABASE == "sqlite", reason="no row locks")
on_postgres = pytest.mark.skipif(DATABASE != "postgres", reason="PostgreSQL's own")
on_sqlite = pytest.mark.skipif(DATABASE != "sqlite", reason="SQLite's own")


def one(dedup="k", *args, task=add):
    return Job.objects.dispatch(task, args or (1, 2), dedup=dedup)


def many(dedup="k", *args, task=add):
    """The same by a batch."""
    spec = task.using(dedup=dedup).spec(*(args or (1, 2)))
    return Job.objects.dispatch_many([add.spec(0, 0), spec])[1]


both_ways = pytest.mark.parametrize("dispatch", [one, many], ids=["one", "many"])


def finish(job):
    Job.objects.settle([(job, Succeeded("3"))])


@contextmanager
def time_limit(seconds):
    with mock.patch.object(passes, "TIME_LIMIT", seconds):
        yield


@contextmanager
def looking_past_the_owner():
    """Let the next look at the owner see nothing, as if a rival committed just after it."""
    looks = []

    def blind(real, nothing):
        def look(*args, **options):
            looks.append(args)
            return nothing if len(looks) == 1 else real(*args, **options)

        return look

    with (
        mock.patch.object(owners, "find", blind(owners.find, None)),
        mock.patch.object(batch, "find", blind(batch.find, {})),
    ):
        yield looks


# --- A lost insert


@both_ways
def test_a_lost_insert_is_answered_outside(dispatch):
    """The insert fails; the next pass finds the winner."""
    winner = one().job
    with looking_past_the_owner() as looks:
        done = dispatch()
    assert len(looks) == 2
    assert (done.job.pk, done.outcome) == (winner.pk, "skipped")


@both_ways
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_018_a_lost_insert_leaves_the_callers_transaction_usable(dispatch, depth):
    """On PostgreSQL, too: it goes on, and commits what came before and after."""
    winner = one().job

    def work(left):
        with transaction.atomic():
            Effect.objects.create(name="before")
            if left > 1:
                return work(left - 1)
            with looking_past_the_owner() as looks:
                done = dispatch()
            assert len(looks) == 2
            Effect.objects.create(name="after")
        return done

    done = work(depth)
    assert (done.job.pk, done.outcome) == (winner.pk, "skipped")
    assert Effect.objects.filter(name="before").count() == depth
    assert Effect.objects.filter(name="after").count() == 1
    assert Job.objects.filter(dedup_id="k").count() == 1


def _view(request, fails):
    for dispatch in (one, one, many):
        dispatch()
    with looking_past_the_owner():
        one()
    Effect.objects.create(name="of the request")
    if fails == "fails":
        raise ZeroDivisionError
    return HttpResponse(status=204)


urlpatterns = [path("<fails>", _view)]


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("fails", ["fails", "succeeds"])
def test_018_atomic_requests(client, fails, monkeypatch):
    """A request's transaction is the caller's: all of it is stored, or nothing."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    client.raise_request_exception = False
    response = client.get(f"/{fails}")
    kept = fails == "succeeds"
    assert response.status_code == (204 if kept else 500)
    assert Effect.objects.count() == kept
    assert Job.objects.filter(dedup_id="k").count() == kept


@both_ways
def test_autocommit_turned_off(dispatch):
    """A transaction without atomic() is a transaction: a lost insert does not spoil it."""
    winner = one().job
    (running,) = claim()
    transaction.set_autocommit(False)
    try:
        Effect.objects.create(name="before")
        with looking_past_the_owner():
            done = dispatch()
        assert (done.job.pk, done.outcome) == (winner.pk, "skipped")
        assert dispatch("j").added
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert Effect.objects.count() == 1
    finish(running)
    assert set(Job.objects.values_list("dedup_id", flat=True)) >= {"k", "j"}


# --- Errors that pass, raised in the place of a statement

# What each database says: a driver's number, or the name of psycopg's class, or the message.
TROUBLE = {
    "deadlock": {"postgres": "DeadlockDetected", "mysql": 1213, "mariadb": 1213},
    "lock wait": {"postgres": "LockNotAvailable", "mysql": 1205, "mariadb": 1205},
    "serialization": {"postgres": "SerializationFailure", "mariadb": 1020},
    "locked file": {"sqlite": "database is locked"},
}
# What is raised inside the caller's transaction. Outside, all of it is run again.
INSIDE = {
    "deadlock": OperationalError,
    "lock wait": DispatchConflict,
    "serialization": OperationalError,
    "locked file": OperationalError,
}
troubles = pytest.mark.parametrize(
    "trouble", [name for name in TROUBLE if DATABASE in TROUBLE[name]]
)
# An owner, the dispatch, and the statement that meets the trouble.
WAYS = {
    "insert": (None, Dedup("k"), "INSERT"),
    "change of a holder": ("pending", Dedup("k", replace=True), "UPDATE {table}"),
    "take-over": ("finished", Dedup("k"), "UPDATE {table}"),
}
ways = pytest.mark.parametrize("way", WAYS)


def error_of(trouble):
    told = TROUBLE[trouble][DATABASE]
    if isinstance(told, int):
        return OperationalError(told, "as the test asked")
    error = OperationalError(told)
    if DATABASE == "postgres":
        import psycopg.errors

        error.__cause__ = getattr(psycopg.errors, told)("as the test asked")
    return error


def prepare(way):
    state, dedup, statement = WAYS[way]
    if state is not None:
        JobFactory(
            queue="default",
            dedup_id="k",
            dedup_hold="finished",
            succeeded=state == "finished",
        )
    return dedup, statement.format(table=connection.ops.quote_name("leasequeue_job"))


def test_the_docs_have_these_troubles():
    """docs/dedup.md, cell by cell, for this database."""
    place = ["postgres", "mysql", "mariadb", "sqlite"].index(DATABASE)
    shown = {}
    for trouble, *cells, outside, inside in readme.table(
        "trouble | PostgreSQL", readme.DEDUP
    ):
        assert outside == "run again"
        shown[trouble] = (cells[place], inside.strip("`"))
    assert shown == {
        trouble: (told_as(trouble), INSIDE[trouble].__name__) for trouble in TROUBLE
    }


def told_as(trouble):
    told = TROUBLE[trouble].get(DATABASE, "")
    if DATABASE == "postgres" and told:
        import psycopg.errors

        return getattr(psycopg.errors, told).sqlstate
    return str(told)


@both_ways
@troubles
@ways
def test_passing_trouble_outside_is_run_again(trouble, way, dispatch):
    """Three times in a row: the caller hears nothing of it."""
    dedup, statement = prepare(way)
    with failing(error_of(trouble), times=3, match=statement) as refused:
        done = dispatch(dedup, 3, 4)
    assert len(refused) == 3
    assert done.outcome == ("replaced" if way.startswith("change") else "added")
    assert Job.objects.filter(dedup_id="k").count() == 1
    assert row(done.job)["args"] == [3, 4]


@both_ways
@troubles
@ways
def test_passing_trouble_outside_that_stays(trouble, way, dispatch):
    """After the time limit of a dispatch: an error that says what happened, nothing stored."""
    dedup, statement = prepare(way)
    before = table()
    always = failing(error_of(trouble), times=10**6, match=statement)
    with (
        time_limit(0.3),
        time_of_reruns(),
        always as refused,
        pytest.raises(DispatchConflict, match="others were in the way") as caught,
    ):
        dispatch(dedup, 3, 4)
    assert len(refused) > 1
    assert isinstance(caught.value.__cause__, OperationalError)
    assert (caught.value.dedup_id, caught.value.queue) == ("k", "default")
    assert table() == before


@both_ways
@troubles
@ways
def test_passing_trouble_inside_is_not_run_again(trouble, way, dispatch):
    """It is the transaction's affair: raised at once, and what was done goes back with it."""
    dedup, statement = prepare(way)
    before = table()
    always = failing(error_of(trouble), times=10**6, match=statement)
    with pytest.raises(INSIDE[trouble]), transaction.atomic(), always as refused:
        dispatch(dedup, 3, 4)
    assert len(refused) == 1
    assert table() == before


@both_ways
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_a_lost_connection_is_raised(dispatch, inside):
    """Nobody knows what became of the statement."""
    always = failing(connection_lost(), times=10**6, match="INSERT")
    with pytest.raises(Error), always as refused:
        if inside:
            with transaction.atomic():
                dispatch()
        else:
            dispatch()
    assert len(refused) == 1


@both_ways
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_the_id_of_another_task(dispatch, inside):
    """DedupConflict, naming both, before anything is written; the transaction goes on."""
    holder = one().job
    before = table()
    if inside:
        with transaction.atomic():
            with pytest.raises(DedupConflict) as caught:
                dispatch(task=record_run)
            Effect.objects.create(name="after")
        assert Effect.objects.count() == 1
    else:
        with pytest.raises(DedupConflict) as caught:
            dispatch(task=record_run)
    assert caught.value.owner_id == holder.pk
    assert (caught.value.owner_task, caught.value.wanted) == (add.name, record_run.name)
    assert table() == before


@on_postgres
@both_ways
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("dedup", [None, "k"])
def test_a_sequence_that_a_restore_left_behind(dispatch, inside, dedup):
    """The violation is raised after one try, and says what to do."""
    kept = JobFactory(queue="default")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('leasequeue_job', 'id'), %s, false)",
            [kept.pk],
        )
    with statements() as sent, pytest.raises(IntegrityError) as caught:
        if inside:
            with transaction.atomic():
                dispatch(dedup)
        else:
            dispatch(dedup)
    assert len([sql for sql in sent if sql.startswith("INSERT")]) == 1
    assert "sqlsequencereset leasequeue" in caught.value.__notes__[0]
    assert set(table()) == {kept.pk}


# --- A rival that does not commit


@both_ways
@on_servers
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("kind", ["new", "pending", "finished"])
def test_the_wait_for_a_rival_is_bounded(dispatch, inside, kind):
    """Then it says so, and the caller's transaction can go on without the job."""
    if kind != "new":
        finished = kind == "finished"
        owner = {"queue": "default", "dedup_hold": "finished", "succeeded": finished}
        JobFactory(dedup_id="k", **owner)
    before = table()
    wanted = Dedup("k", replace=kind == "pending")
    # On MySQL and MariaDB the session's own bound, in whole seconds, ends each wait.
    session = {} if DATABASE == "postgres" else {"innodb_lock_wait_timeout": 1}
    with caller() as rival, caller(**session) as other, time_limit(0.5):
        rival.begin()
        rival.do(one, wanted)
        if inside:
            other.begin()
            other.do(Effect.objects.create, name="before")
        with pytest.raises(DispatchConflict) as caught:
            other.do(dispatch, wanted, 3, 4)
        if inside:
            other.do(Effect.objects.create, name="after")
            other.commit()
        rival.rollback()
    assert isinstance(caught.value.__cause__, OperationalError)
    assert Effect.objects.count() == 2 * inside
    assert table() == before


@on_sqlite
@both_ways
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_the_wait_for_the_file_is_bounded(dispatch, inside):
    """A writer that does not commit: DispatchConflict outside, SQLite's own error inside."""
    with caller() as rival, caller() as other, time_limit(0.5):
        rival.begin()
        rival.do(one, "j")
        other.do(lambda: connection.cursor().execute("PRAGMA busy_timeout = 50"))
        with pytest.raises(OperationalError if inside else DispatchConflict):
            other.do(in_an_atomic_block, dispatch) if inside else other.do(dispatch)
        rival.rollback()
    assert table() == {}


def in_an_atomic_block(function):
    with transaction.atomic():
        return function()


@both_ways
@on_servers
def test_two_callers_that_take_ids_in_opposite_orders(dispatch):
    """The server ends the ring: one gets its error, the other goes on."""
    for key in ("a", "b"):
        one(key)
    with caller() as first, caller() as second:
        for who, key in ((first, "a"), (second, "b")):
            who.begin()
            who.do(dispatch, key)
        waits = {first.start(dispatch, "b"): first, second.start(dispatch, "a"): second}
        done, _ = wait(waits, timeout=60, return_when=FIRST_EXCEPTION)
        (loser,) = [future for future in done if future.exception() is not None]
        usable = waits[loser].start(Effect.objects.create, name="after").exception(60)
        # MySQL and MariaDB have undone the whole transaction, and Django knows.
        assert (usable is None) == (DATABASE == "postgres")
        waits[loser].rollback()
        (other,) = set(waits) - {loser}
        assert not other.result(60).added
        waits[other].commit()
    assert isinstance(loser.exception(), OperationalError)
    assert Effect.objects.count() == 0
    assert Job.objects.filter(dedup_id__in=["a", "b"]).count() == 2


# --- The docs

# Each row of docs/dedup.md's second table of troubles, and where its cells are tested.
SHOWN_BY = {
    "another dispatch inserts the id first": [
        test_a_lost_insert_is_answered_outside,
        test_018_a_lost_insert_leaves_the_callers_transaction_usable,
    ],
    # Inside: test_dedup_isolation.py.
    "the winner is hidden by the snapshot": [test_a_lost_insert_is_answered_outside],
    "a rival that does not commit": [test_the_wait_for_a_rival_is_bounded],
    "a writer that does not commit": [test_the_wait_for_the_file_is_bounded],
    "the id of another task": [test_the_id_of_another_task],
    "the connection is lost": [test_a_lost_connection_is_raised],
    "an id sequence left behind by a restore": [
        test_a_sequence_that_a_restore_left_behind
    ],
}


def test_each_trouble_of_the_docs_has_its_tests():
    rows = readme.table("trouble | databases", readme.DEDUP)
    assert [row[0] for row in rows] == list(SHOWN_BY)


# --- What it costs


@on_servers
def test_statements_of_the_common_cases():
    """A new id and a duplicate are two statements each; inside, a savepoint around the insert."""

    def sent(function):
        with statements() as seen:
            function()
        return [sql.split()[0] for sql in seen]

    connection.ensure_connection()
    assert sent(one) == ["SELECT", "INSERT"]
    assert sent(one) == ["SELECT", "UPDATE"]
    with transaction.atomic():
        assert sent(lambda: one("j")) == ["SELECT", "SAVEPOINT", "INSERT", "RELEASE"]
        Job.objects.filter(dedup_id="k").update(
            status="succeeded", finished_at="2026-01-01T00:00Z", dedup_hold="removed"
        )
        # The holder, and whether what was read is the newest.
        assert len(sent(one)) == 2


@on_postgres
@both_ways
@pytest.mark.parametrize("usual", ["0", "7s", "1234ms"])
def test_the_callers_lock_timeout_is_put_back(dispatch, usual):
    """Whether the dispatch adds, finds a holder, or fails."""

    def shown():
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            return cursor.fetchone()[0]

    one("held")
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{usual}'")
        dispatch()
        assert shown() == usual
        dispatch("held")
        assert shown() == usual
        with pytest.raises(DedupConflict):
            dispatch("held", task=record_run)
        with looking_past_the_owner():
            dispatch()
        assert shown() == usual
    assert shown() == "0"
    dispatch("outside")
    dispatch(Dedup("outside", replace=True))
    assert shown() == "0"


@on_postgres
def test_a_shorter_lock_timeout_of_the_project_stays():
    """It is the project's own wish; the dispatch only bounds what would last longer."""
    with caller() as rival, caller(lock_timeout="'100ms'") as other:
        rival.begin()
        rival.do(one)
        other.begin()
        with pytest.raises(DispatchConflict):
            other.do(one)


@on_postgres
@pytest.mark.parametrize(
    "options", [{}, {"prepare_threshold": 1}, {"prepare_threshold": 0}]
)
@both_ways
def test_parameters_bound_by_the_server(dispatch, options):
    """With OPTIONS["server_side_binding"], also of statements that the server keeps."""
    with server_side_binding(options):
        assert dispatch().added
        assert not dispatch().added
        assert dispatch(Dedup("k", replace=True)).outcome == "replaced"
        with transaction.atomic():
            assert dispatch("j").added
            assert dispatch(Dedup("j", replace=True)).outcome == "replaced"
            with looking_past_the_owner():
                assert not dispatch("j").added
        Job.objects.filter(dedup_id="k").cancel()
        assert dispatch().added


@contextmanager
def server_side_binding(more):
    usual = connection.settings_dict
    options = {**usual.get("OPTIONS", {}), "server_side_binding": True, **more}
    connection.close()
    connection.settings_dict = {**usual, "OPTIONS": options}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = usual
