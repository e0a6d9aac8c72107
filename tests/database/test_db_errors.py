"""What a database error means: each kind brought about for real, then asked about."""

import contextlib
import threading

import pytest
from django.db import (
    DatabaseError,
    IntegrityError,
    OperationalError,
    connection,
    connections,
    transaction,
)

from django_leasequeue import db
from django_leasequeue.db import DatabaseNow
from django_leasequeue.db.errors import in_transaction, is_lock_wait
from django_leasequeue.models import Job
from tests.factories import JobFactory
from tests.helpers import DEADLINE, eventually, in_thread, new_connection, together
from tests.road import connection_lost, deadlock, time_of_reruns

transactional = pytest.mark.django_db(transaction=True)


def kinds(error, of=connection):
    """Return the words that hold for an error."""
    asked = {
        "passing": db.is_passing_trouble,
        "wait": is_lock_wait,
        "lost": db.is_connection_lost,
        "unwritable": db.is_unwritable,
    }
    return {word for word, holds in asked.items() if holds(error, of)}


@contextlib.contextmanager
def caught(*classes):
    """Yield a list that holds the database's error after the block."""
    found = []
    with pytest.raises(classes or DatabaseError) as info, transaction.atomic():
        yield found
    found.append(info.value)


def run(sql, params=None, of=connection):
    with of.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else None


def is_vendor(*vendors):
    return connection.vendor in vendors


def skip_unless(condition, reason):
    if not condition:
        pytest.skip(reason)


# --- Read-only

READ_ONLY = {
    "postgresql": "SET TRANSACTION READ ONLY",
    "sqlite": "PRAGMA query_only = ON",
}


def test_a_write_that_is_refused_as_all_are():
    """Here by the transaction's mode; test_read_only has servers that refuse everybody's."""
    if is_vendor("mysql"):
        pytest.skip("there it can't be said in a transaction")
    with caught() as found:
        run(READ_ONLY[connection.vendor])
        try:
            with transaction.atomic():
                JobFactory()
        finally:
            if is_vendor("sqlite"):
                run("PRAGMA query_only = OFF")
    assert kinds(found[0]) == {"unwritable"}


@pytest.mark.parametrize(
    ("number", "expected"), [(1047, {"unwritable"}), (1180, {"lost"})]
)
def test_a_node_of_galera_without_the_others(number, expected):
    """It refuses each statement, or tells of a COMMIT that nobody knows what became of."""
    skip_unless(is_vendor("mysql"), "not on this database")
    with caught(OperationalError) as found:
        run("SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = %s", [number])
    assert kinds(found[0]) == expected


@transactional
def test_a_node_that_is_not_ready_is_asked_again():
    """Alone, where nothing was done yet; in somebody's transaction it is raised."""
    skip_unless(is_vendor("mysql"), "not on this database")
    tries = []

    def ask():
        tries.append(1)
        if len(tries) == 1:
            run("SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047")
        return "answer"

    assert db.rerun(ask, using="default", seconds=DEADLINE) == "answer"
    tries.clear()
    with caught(OperationalError) as found:
        db.rerun(ask, using="default", seconds=DEADLINE)
    assert found[0].args[0] == 1047


# --- Violations

NASTY = [
    "plain",
    "leasequeue_dedup",
    "leasequeue_tick",
    "' for key 'leasequeue_tick'",
    "x' for key 'leasequeue_job.leasequeue_dedup'",
    "' for key 'PRIMARY'",
    'Key (queue, dedup_id)=(a, b) already exists" violates "leasequeue_tick',
    "UNIQUE constraint failed: leasequeue_job.schedule, leasequeue_job.tick",
    "\"')",
    "'",
    "\\",
    "\\'",
    "%s %(a)s %",
    "\n",
    "\r\nDETAIL:  Key (id)",
    "á",
    "\N{GRINNING FACE}" * 100,
]
DEDUP, TICK = Job._meta.constraints[:2]


def violated(error):
    return {
        constraint.name
        for constraint in (DEDUP, TICK)
        if db.is_violation(error, constraint, Job)
    }


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_which_constraint_is_violated(text):
    """Whatever the texts say, the unique constraint is told from the other and the key."""
    at = JobFactory().run_at
    same = {"queue": text, "dedup_id": text, "schedule": text, "tick": at}
    job = JobFactory(**same)
    with caught(IntegrityError) as found:
        JobFactory(**{**same, "tick": None})
    assert violated(found[0]) == {"leasequeue_dedup"}
    with caught(IntegrityError) as found:
        JobFactory(**{**same, "dedup_id": None})
    assert violated(found[0]) == {"leasequeue_tick"}
    with caught(IntegrityError) as found:
        JobFactory(id=job.pk, **{**same, "dedup_id": "b", "schedule": "b"})
    assert violated(found[0]) == set()
    assert kinds(found[0]) == set()


def test_violation_by_a_batch_and_by_an_update():
    first = JobFactory(queue="q", dedup_id="a")
    with caught(IntegrityError) as found:
        Job.objects.bulk_create(
            Job(
                queue="q",
                task="t",
                dedup_id=name,
                run_at=first.run_at,
                created_at=first.run_at,
            )
            for name in ("b", "c", "a")
        )
    assert violated(found[0]) == {"leasequeue_dedup"}
    other = JobFactory(queue="q", dedup_id="b")
    with caught(IntegrityError) as found:
        Job.objects.filter(pk=other.pk).update(dedup_id="a")
    assert violated(found[0]) == {"leasequeue_dedup"}


@pytest.mark.parametrize("column", [{"status": "running"}, {"task": None}])
def test_other_refusals_are_no_violation(column):
    with caught(IntegrityError) as found:
        JobFactory(queue="leasequeue_dedup", dedup_id="leasequeue_dedup", **column)
    assert violated(found[0]) == set()


LANGUAGES = [
    *["bg_BG", "cs_CZ", "da_DK", "de_DE", "el_GR", "en_US", "es_ES", "et_EE", "fr_FR"],
    *["hu_HU", "it_IT", "ja_JP", "ko_KR", "nl_NL", "no_NO", "pl_PL", "pt_PT", "ro_RO"],
    *["ru_RU", "sk_SK", "sr_RS", "sv_SE", "uk_UA", "zh_CN"],
]


def test_violation_in_the_servers_languages():
    """MySQL and MariaDB tell the constraint only in words, which may be of any language."""
    skip_unless(is_vendor("mysql"), "only they tell it in words alone")
    text = "' for key 'leasequeue_tick'"
    job = JobFactory(queue="q", dedup_id=text, schedule="' 'leasequeue_dedup'")
    Job.objects.update(tick=DatabaseNow())
    job.refresh_from_db()
    heard = set()
    for language in LANGUAGES:
        with contextlib.suppress(DatabaseError):  # not installed
            run("SET SESSION lc_messages = %s", [language])
        with caught(IntegrityError) as found:
            JobFactory(queue="q", dedup_id=text)
        assert violated(found[0]) == {"leasequeue_dedup"}, found
        with caught(IntegrityError) as found:
            JobFactory(schedule=job.schedule, tick=job.tick)
        assert violated(found[0]) == {"leasequeue_tick"}, found
        heard.add(found[0].args[1])
    run("SET SESSION lc_messages = 'en_US'")
    assert heard


# --- Trouble that passes


@transactional
def test_real_deadlock():
    """Two callers take two rows in opposite orders: one is told, and may run again."""
    skip_unless(connection.features.has_select_for_update, "no row locks")
    jobs = JobFactory.create_batch(2)
    both_have_one = threading.Barrier(2)

    def take_both(number):
        with transaction.atomic():
            for turn, job in enumerate(jobs if number else reversed(jobs)):
                list(Job.objects.select_for_update().filter(pk=job.pk))
                if not turn:
                    both_have_one.wait(DEADLINE)

    ends = together(2, take_both, return_exceptions=True)
    [error] = [end for end in ends if end is not None]
    assert isinstance(error, OperationalError)
    assert kinds(error) == {"passing"}


@transactional
def test_real_wait_for_a_lock(second_connection):
    """A statement that gave up waiting has done nothing and may run again."""
    job = JobFactory()
    update = "UPDATE leasequeue_job SET priority = priority + 1 WHERE id = %s"
    shorten = {
        "postgresql": "SET lock_timeout = '50ms'",
        "mysql": "SET SESSION innodb_lock_wait_timeout = 1",
        "sqlite": "PRAGMA busy_timeout = 50",
    }
    with transaction.atomic():
        run(update, [job.pk])
        run(shorten[connection.vendor], of=second_connection)
        with pytest.raises(OperationalError) as info:
            run(update, [job.pk], of=second_connection)
    # SQLite has no rows to wait for; there the whole file is locked.
    waits = set() if is_vendor("sqlite") else {"wait"}
    assert kinds(info.value, second_connection) == {"passing"} | waits
    run(update, [job.pk], of=second_connection)
    job.refresh_from_db()
    assert job.priority == 2


@transactional
def test_real_refusal_to_wait(second_connection):
    """NOWAIT is told like a wait that ended."""
    skip_unless(connection.features.has_select_for_update_nowait, "no NOWAIT")
    job = JobFactory()
    look = "SELECT id FROM leasequeue_job WHERE id = %s FOR UPDATE NOWAIT"
    with transaction.atomic():
        run(look, [job.pk])
        with pytest.raises(OperationalError) as info:
            run(look, [job.pk], of=second_connection)
    assert "wait" in kinds(info.value, second_connection)
    assert "lost" not in kinds(info.value, second_connection)


@transactional
def test_real_change_under_a_snapshot(second_connection):
    """A row that somebody changed after the snapshot was taken: run again, on a newer one."""
    job = JobFactory()
    update = "UPDATE leasequeue_job SET priority = priority + 1 WHERE id = %s"
    isolate = {
        "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "mysql": "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "sqlite": "PRAGMA busy_timeout = 50",
    }
    run(isolate[connection.vendor], of=second_connection)
    if is_vendor("sqlite"):
        skip_unless(
            run("PRAGMA journal_mode") == [("wal",)], "readers keep writers out"
        )
    if is_vendor("mysql"):
        skip_unless(connection.mysql_is_mariadb, "MySQL lets the newer row be changed")
        run("SET SESSION innodb_snapshot_isolation = ON", of=second_connection)
    run("BEGIN", of=second_connection)
    run("SELECT priority FROM leasequeue_job", of=second_connection)
    Job.objects.update(priority=5)
    with pytest.raises(OperationalError) as info:
        run(update, [job.pk], of=second_connection)
    assert kinds(info.value, second_connection) == {"passing"}
    run("ROLLBACK", of=second_connection)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT locked FROM leasequeue_job",
        "SELECT busy FROM database_is_locked",
        "SELEKT 1",
        "INSERT INTO leasequeue_job (id) VALUES ('database is locked')",
        "SELECT id FROM leasequeue_job WHERE 'deadlock detected' = (SELECT 1",
    ],
)
def test_mistakes_do_not_pass(sql):
    """A mistake in a statement stays one, whatever words it is made of."""
    with caught() as found:
        run(sql)
    assert kinds(found[0]) == set()


# --- Connections that are lost


def server_id(of):
    """Return the number by which the server knows a connection."""
    run("SELECT 1", of=of)
    if is_vendor("postgresql"):
        return of.connection.info.backend_pid
    return of.connection.thread_id()


def kill(pid):
    """End a connection as an administrator does; returns once the server has done it."""
    if is_vendor("postgresql"):
        run("SELECT pg_terminate_backend(%s)", [pid])
        left = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
    else:
        run(f"KILL {pid}")
        left = "SELECT 1 FROM information_schema.processlist WHERE id = %s"
    eventually(lambda: not run(left, [pid]))


@transactional
def test_connection_that_was_killed(second_connection):
    """The next statement finds it dead, and one more finds it still dead."""
    skip_unless(not is_vendor("sqlite"), "a file has no connection to lose")
    kill(server_id(second_connection))
    for _ in range(2):
        with pytest.raises(DatabaseError) as info:
            run("SELECT 1", of=second_connection)
        assert kinds(info.value, second_connection) == {"lost"}


@transactional
def test_connection_that_was_killed_in_a_transaction(second_connection):
    skip_unless(not is_vendor("sqlite"), "a file has no connection to lose")
    job = JobFactory()
    second_connection.set_autocommit(False)
    run("UPDATE leasequeue_job SET priority = 1", of=second_connection)
    kill(server_id(second_connection))
    with pytest.raises(DatabaseError) as info:
        second_connection.commit()
    assert kinds(info.value, second_connection) == {"lost"}
    job.refresh_from_db()
    assert job.priority == 0


@transactional
def test_connection_that_was_killed_in_a_statement():
    """Its client is told while it waits for the answer."""
    skip_unless(not is_vendor("sqlite"), "a file has no connection to lose")
    sleep = "SELECT pg_sleep(300)" if is_vendor("postgresql") else "SELECT SLEEP(300)"
    running = {
        "postgresql": "SELECT 1 FROM pg_stat_activity WHERE query = %s",
        "mysql": "SELECT 1 FROM information_schema.processlist WHERE info = %s",
    }[connection.vendor]
    with new_connection() as victim:
        pid = server_id(victim)

        def wait():
            with pytest.raises(DatabaseError) as info:
                run(sleep, of=victim)
            return info.value

        victim.inc_thread_sharing()
        with in_thread(wait) as waiting:
            eventually(lambda: run(running, [sleep]))
            kill(pid)
            error = waiting.result()
        assert kinds(error, victim) == {"lost"}


@transactional
def test_server_that_is_not_there():
    """Nobody listens: told as a lost connection, so that workers wait for the server."""
    skip_unless(not is_vendor("sqlite"), "a file has no server")
    with new_connection() as nowhere:
        nowhere.settings_dict = {**nowhere.settings_dict, "PORT": "1"}
        with pytest.raises(DatabaseError) as info:
            run("SELECT 1", of=nowhere)
        assert kinds(info.value, nowhere) == {"lost"}


@transactional
def test_connection_that_was_closed_beneath():
    """The driver's own object is closed, as after a fork gone wrong."""
    with new_connection() as closed:
        run("SELECT 1", of=closed)
        closed.connection.close()
        with pytest.raises(Exception) as info:
            run("SELECT 1", of=closed)
        assert "passing" not in kinds(info.value, closed)
        if not is_vendor("sqlite"):
            assert kinds(info.value, closed) == {"lost"}
        closed.connection = None


# --- Running again


class Calls:
    """A function that raises each of `errors` in turn, then returns "done"."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.count = 0

    def __call__(self):
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@transactional
def test_rerun_gets_through_what_passes():
    calls = Calls(deadlock(), deadlock(), deadlock())
    assert db.rerun(calls, using="default", seconds=DEADLINE) == "done"
    assert calls.count == 4


@transactional
@pytest.mark.parametrize(
    "error", [IntegrityError("locked"), ValueError("database is locked")]
)
def test_rerun_raises_others_at_once(error):
    calls = Calls(error)
    with pytest.raises(type(error)) as info:
        db.rerun(calls, using="default", seconds=DEADLINE)
    assert info.value is error
    assert calls.count == 1


@transactional
def test_rerun_ends():
    """By seconds, not by the number of calls; the last error is raised as it was."""
    last = []

    def never():
        last.append(deadlock())
        raise last[-1]

    with time_of_reruns(), pytest.raises(OperationalError) as info:
        db.rerun(never, using="default", seconds=0.2)
    assert info.value is last[-1]
    assert len(last) > 1
    calls = Calls(deadlock())
    with pytest.raises(OperationalError):
        db.rerun(calls, using="default", seconds=0)
    assert calls.count == 1


def test_rerun_leaves_a_callers_transaction_alone():
    """What the database has rolled back there was more than this call's."""
    assert connections["default"].in_atomic_block
    calls = Calls(deadlock())
    with pytest.raises(OperationalError):
        db.rerun(calls, using="default", seconds=DEADLINE)
    assert calls.count == 1


@transactional
def test_rerun_leaves_a_transaction_without_autocommit_alone():
    calls = Calls(deadlock())
    transaction.set_autocommit(False)
    try:
        assert in_transaction(connections["default"])
        with pytest.raises(OperationalError):
            db.rerun(calls, using="default", seconds=DEADLINE)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert calls.count == 1
    assert not in_transaction(connections["default"])


@transactional
def test_rerun_asks_what_is_worth_it():
    """The caller may say which errors are worth another call."""
    calls = Calls(connection_lost(), connection_lost())
    done = db.rerun(
        calls, using="default", seconds=DEADLINE, again=lambda error, connection: True
    )
    assert done == "done"
    assert calls.count == 3
