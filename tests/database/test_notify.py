"""db.notify and worker.listener: who is told of a job, when, and at what price."""

import contextlib
from datetime import timedelta
from unittest import mock

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.db.migrations.writer import MigrationWriter

from django_leasequeue import db
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.operations import ForgetWorkers, NotifyWorkers
from django_leasequeue.outcomes import RetryLater, Succeeded
from django_leasequeue.worker import listener as listening
from django_leasequeue.worker.listener import Listener, State
from django_leasequeue.worker.wakeup import Wakeup
from tests.helpers import DEADLINE, eventually, in_thread, new_connection
from tests.listening import holders
from tests.road import claim
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True)
# Nobody waits so long: a sleep that ends has been ended.
FOR_EVER = 10 * DEADLINE


@pytest.fixture(autouse=True)
def told():
    if connection.vendor != "postgresql":
        pytest.skip("no other database tells")


@pytest.fixture
def line():
    """A session that listens; waiting is up to the test."""
    with open_line() as one:
        yield one


@contextlib.contextmanager
def open_line(idle_seconds=600):
    with new_connection() as own, mock.patch.object(db.notify, "connections") as all_:
        all_.__getitem__.return_value = own
        yield db.Line("default", Job._meta.db_table, idle_seconds)


def heard(line):
    """Return how often the line was told of what is committed by now."""
    # Notifications come in the order of commits, before the answer to a later statement.
    line.check()
    return line.hear()


# --- The triggers


def test_a_dispatch_tells_who_waits_and_nobody_else(line):
    add.dispatch(1, 2)
    assert heard(line) == 0
    line.wait()
    add.dispatch(1, 2)
    assert heard(line) == 1
    line.rest()
    add.dispatch(1, 2)
    assert heard(line) == 0


def test_many_jobs_tell_once(line):
    line.wait()
    Job.objects.dispatch_many([add.spec(1, n) for n in range(50)])
    assert heard(line) == 1


def test_in_a_transaction_it_tells_at_the_commit(line):
    line.wait()
    with transaction.atomic():
        add.dispatch(1, 2)
        assert heard(line) == 0
    assert heard(line) == 1


def test_a_rollback_tells_nobody(line):
    line.wait()
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        add.dispatch(1, 2)
        1 / 0  # noqa: B018
    assert heard(line) == 0


def test_a_repeatable_read_sees_who_waits_now(line):
    """Unlike a table, in which its snapshot would show nobody."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT 1 FROM leasequeue_job")
        line.wait()
        add.dispatch(1, 2)
    assert heard(line) == 1


def settled(outcome):
    [job] = claim()
    Job.objects.settle([(job, outcome)])


def released():
    [job] = claim()
    Job.objects.release(job.token)


@pytest.mark.parametrize(
    ("change", "times"),
    [
        (lambda: claim(), 0),
        (lambda: settled(Succeeded(None)), 0),
        (lambda: settled(RetryLater(timedelta(0), {})), 1),
        (released, 1),
        (lambda: Job.objects.update(run_at=DatabaseNow(-60)), 1),
        (lambda: Job.objects.update(run_at=DatabaseNow(60)), 0),
        (lambda: Job.objects.update(priority=3), 0),
        (lambda: (Job.objects.update(blocked=1), Job.objects.update(blocked=0)), 1),
    ],
    ids=[
        *["claim", "success", "retry", "release", "earlier", "later", "priority"],
        "unblocked",
    ],
)
def test_updates_tell_only_of_jobs_that_become_due(line, change, times):
    add.using(max_attempts=3).dispatch(1, 2)
    line.wait()
    change()
    assert heard(line) == times


def test_two_tables_of_one_database_are_told_apart(line):
    line.wait()
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA neighbour")
        try:
            cursor.execute("SET search_path = neighbour")
            cursor.execute(
                "CREATE TABLE leasequeue_job"
                " (LIKE public.leasequeue_job INCLUDING DEFAULTS)"
            )
            for statement in db.notify_statements(connection, "leasequeue_job"):
                cursor.execute(statement)
            job = Job(id=1, queue="q", task="t")
            job.run_at = job.created_at = DatabaseNow()
            job.save(force_insert=True)
            assert heard(line) == 0
        finally:
            cursor.execute("SET search_path = public")
            cursor.execute("DROP SCHEMA neighbour CASCADE")


def test_renaming_the_schema_breaks_nothing(line):
    """Nothing in the function is found by a name that a project may change."""
    line.wait()
    with connection.cursor() as cursor:
        cursor.execute("ALTER SCHEMA public RENAME TO renamed")
        try:
            cursor.execute("SET search_path = renamed")
            add.dispatch(1, 2)
        finally:
            cursor.execute("ALTER SCHEMA renamed RENAME TO public")
            cursor.execute("SET search_path = public")
    assert heard(line) == 1


def triggers():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
            " AND tgrelid = 'leasequeue_job'::regclass"
        )
        return {name for (name,) in cursor.fetchall()}


def run(operation, how):
    from django.db.migrations.executor import MigrationExecutor

    state = MigrationExecutor(connection).loader.project_state()
    with connection.schema_editor() as editor:
        getattr(operation, how)("leasequeue", editor, state, state)


def test_the_operations_undo_each_other_and_may_run_twice():
    both = {"leasequeue_inserted", "leasequeue_made_due"}
    assert triggers() == both
    for operation, how, left in [
        (NotifyWorkers(), "database_backwards", set()),
        (NotifyWorkers(), "database_backwards", set()),
        (ForgetWorkers(), "database_backwards", both),
        (NotifyWorkers(), "database_forwards", both),
        (ForgetWorkers(), "database_forwards", set()),
        (NotifyWorkers(), "database_forwards", both),
    ]:
        run(operation, how)
        assert triggers() == left


@pytest.mark.parametrize("operation", [NotifyWorkers(), ForgetWorkers()])
def test_a_squashed_migration_can_name_them(operation):
    text, imports = MigrationWriter.serialize(operation)
    name = type(operation).__name__
    assert "".join(text.split()) == f"django_leasequeue.operations.{name}()"
    assert imports == {"import django_leasequeue.operations"}
    assert operation.describe() and operation.migration_name_fragment


# --- Who waits, and how long


def test_a_session_that_gives_no_sign_of_life_is_ended():
    """Such as that of a worker that is frozen, or whose machine is gone."""
    with open_line(idle_seconds=1) as frozen:
        frozen.wait()
        eventually(lambda: not holders())
        with pytest.raises(OperationalError):
            frozen.check()


def test_a_pooler_is_noticed_before_anything_is_set(line):
    with (
        mock.patch("psycopg.ConnectionInfo.backend_pid", 1),
        pytest.raises(db.SharedSession),
        open_line(),
    ):
        pass


@pytest.fixture
def listener():
    """A Listener, and its Wakeup as `listener.wakeup`."""
    wakeup = Wakeup()
    one = Listener("default", wakeup)
    one.wakeup = wakeup
    yield one
    one.close()
    assert not one._thread.is_alive()


def sleep_until_told_that_it_waits(listener):
    """Sleep as the loop does, through all looks that follow; only a job ends the next."""
    while listener._state is not State.WAITING or listener._looks:
        listener.sleep(FOR_EVER)
    while listener.wakeup.sleep(0):
        pass


def test_a_dispatch_ends_the_sleep(listener):
    sleep_until_told_that_it_waits(listener)
    for _ in range(3):
        with in_thread(lambda: add.dispatch(1, 2)):
            listener.sleep(FOR_EVER)
    assert Job.objects.count() == 3


def test_what_came_since_the_look_ends_the_next_sleep_at_once(listener):
    sleep_until_told_that_it_waits(listener)
    add.dispatch(1, 2)
    eventually(lambda: listener._unheeded)
    listener.sleep(FOR_EVER)
    assert listener._unheeded == 0


def test_a_dispatch_that_saw_nobody_wait_is_looked_for_again(listener):
    """The lost wake-up: it looks who waits, then one waits and looks, then it commits."""
    with transaction.atomic():
        add.dispatch(1, 2)

        def sleep_and_look():
            listener.sleep(FOR_EVER)
            return Job.objects.count()

        with in_thread(sleep_and_look) as first:
            assert first.result() == 0
        with in_thread(sleep_and_look) as registered:
            assert registered.result() == 0
        assert len(holders()) == 1
    # Nothing will be told; only looks are left.
    listener.sleep(FOR_EVER)
    assert listener._fruitless == 0
    assert Job.objects.count() == 1


def test_it_lets_go_when_it_is_told_more_than_it_can_use(listener):
    sleep_until_told_that_it_waits(listener)
    with mock.patch.object(listening, "_FIRST_REST", FOR_EVER):
        listener._rest = FOR_EVER
        for _ in range(listening._UNHEEDED):
            add.dispatch(1, 2)
        eventually(lambda: listener._state is State.RESTING)
        assert holders() == set()
        # Still at hand, by looks that are short.
        assert listener.interval <= 0.2


def test_it_lets_go_when_nothing_is_ever_for_it(listener):
    with mock.patch.object(listening, "_FRUITLESS", 3):
        for _ in range(3):
            sleep_until_told_that_it_waits(listener)
            with in_thread(lambda: add.dispatch(1, 2)):
                listener.sleep(FOR_EVER)
        eventually(lambda: not holders())
    # And waits again a little later.
    sleep_until_told_that_it_waits(listener)


def test_a_lost_connection_is_replaced(listener, caplog):
    sleep_until_told_that_it_waits(listener)
    [pid] = holders()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])

    def replaced():
        listener.sleep(0.01)
        return holders() - {pid}

    eventually(replaced)
    sleep_until_told_that_it_waits(listener)
    with in_thread(lambda: add.dispatch(1, 2)):
        listener.sleep(FOR_EVER)
    assert "Cannot listen for jobs now" in caplog.text


def test_behind_a_pooler_it_says_so_and_polls(listener, caplog):
    with mock.patch("psycopg.ConnectionInfo.backend_pid", 1):
        listener.sleep(0)
        listener._thread.join(DEADLINE)
    assert "Workers poll for jobs" in caplog.text
    assert listener.interval == 0.2


def test_a_pools_connections_are_left_alone():
    connection = connections["default"]
    usual = connection.settings_dict
    connection.settings_dict = {
        **usual,
        "OPTIONS": {"pool": True, "keepalives_idle": 3},
    }
    try:
        Listener("default", Wakeup())._prepare()
        options = connection.settings_dict["OPTIONS"]
        assert "pool" not in options
        assert options["keepalives_idle"] == 3
    finally:
        connection.settings_dict = usual
