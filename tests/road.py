"""Tools for tests of the verbs: a task made on the spot, a claim, whole rows, and trouble."""

import contextlib
import uuid
from types import SimpleNamespace
from unittest import mock

from django.db import DatabaseError, OperationalError, connections

from django_leasequeue import db, registry, task
from django_leasequeue.db import DatabaseNow, errors, taking
from django_leasequeue.models import Job
from django_leasequeue.selection import Selection
from tests.factories import JobFactory
from tests.helpers import eventually, in_thread, new_connection, paused

WORKER = "host:1"


@contextlib.contextmanager
def toy(function, **options):
    """Yield the function as a task, known until the block ends, as if of tests.tasks."""
    function.__module__ = "tests.tasks"
    with mock.patch.dict(registry._tasks):
        yield task(**options)(function)


def claim(limit=100, queues="*", exclude="", *, token=None, using="default", **options):
    """Claim what is due, jobs that are to run alone last; returns the Claimed jobs."""
    token = token or uuid.uuid4()
    jobs, selection = Job.objects.using(using), Selection.parse(queues, exclude)
    found = jobs.claim(selection, limit, token, WORKER, **options)
    left = limit - len(found.jobs)
    if found.suspects and left:
        alone = jobs.claim(selection, left, token, WORKER, alone=True)
        return found.jobs + alone.jobs
    return found.jobs


@contextlib.contextmanager
def claim_under_way():
    """Hold the first claim while it has its rows, before its transaction ends; yields a Pause.

    Makes a job of a lane of its own, so that the claim is a transaction of several reads
    wherever one statement would do for a single lane.
    """
    JobFactory(priority=-100)
    with paused(taking._Worked, "_found", after=True) as pause:
        yield pause


def outrun_by_its_lease(hold, work):
    """Let `work(job)` have the job's row locked in time, and go on when the lease has ended.

    `hold`: makes a job that this worker holds. Returns the job, and what the work returned.
    """
    for seconds in (0.5, 5, 50):
        job = hold()
        Job.objects.filter(pk=job.id).update(processing_until=DatabaseNow(seconds))
        with (
            paused(db, "take", after=True) as pause,
            in_thread(lambda job=job: work(job)) as late,
        ):
            pause.wait()
            # Else this machine is too busy for so short a lease.
            in_time = pause.result != []
            if in_time:
                eventually(Job.objects.expired().exists)
                # Still locked by its worker: passed over, not waited for.
                assert claim() == []
            pause.resume()
            result = late.result()
        if in_time:
            return job, result
        Job.objects.all().delete()
    raise AssertionError(f"Its row was not locked within {seconds} s")


def row(job, using="default"):
    """Return every column of a job's row as a dict, None if there is no row."""
    pk = job if isinstance(job, int) else getattr(job, "id", job)
    return Job.objects.using(using).filter(pk=pk).values().first()


def table(using="default"):
    """Return every row of the table, by id."""
    return {values["id"]: values for values in Job.objects.using(using).values()}


def ids(jobs):
    """Return the ids of jobs or Claimed, in their order."""
    return [job.id for job in jobs]


@contextlib.contextmanager
def isolation(level, using="default"):
    """Let this thread's connection work at an isolation level, such as "repeatable read".

    SQLite has but one, so that there nothing changes.
    """
    connection = connections[using]
    if connection.vendor == "sqlite":
        yield
        return
    if connection.vendor == "postgresql":
        from django.db.backends.postgresql.psycopg_any import IsolationLevel

        level = IsolationLevel[level.upper().replace(" ", "_")]
    usual = connection.settings_dict
    options = {**usual.get("OPTIONS", {}), "isolation_level": level}
    connection.close()
    connection.settings_dict = {**usual, "OPTIONS": options}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = usual


@contextlib.contextmanager
def locked(jobs, using="default"):
    """Keep the jobs' rows locked from another connection, on SQLite the whole file.

    Yields a function that lets them go before the block ends.
    """
    with new_connection(using) as connection:
        connection.set_autocommit(False)
        with connection.cursor() as cursor:
            if connection.features.has_select_for_update:
                # One by one: MariaDB would scan for a list, and lock all that it passes.
                for job in jobs:
                    cursor.execute(
                        "SELECT id FROM leasequeue_job WHERE id = %s FOR UPDATE",
                        [job.id],
                    )
            else:
                cursor.execute("UPDATE leasequeue_job SET id = id WHERE id = 0")
        try:
            yield connection.rollback
        finally:
            connection.rollback()
            connection.set_autocommit(True)


@contextlib.contextmanager
def ending_after(passed, using="default"):
    """Let this thread's next `passed` statements through and refuse all others."""
    seen = 0

    def wrapper(execute, sql, params, many, context):
        nonlocal seen
        seen += 1
        if seen > passed:
            raise DatabaseError("The process ends here.")
        return execute(sql, params, many, context)

    with connections[using].execute_wrapper(wrapper):
        yield


@contextlib.contextmanager
def time_of_reruns():
    """Let the seconds of db.rerun() pass by its own pauses alone, however slow the machine is.

    None of them is slept.
    """
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    with (
        mock.patch.object(errors, "clock", SimpleNamespace(now=lambda: now[0])),
        mock.patch.object(errors, "time", SimpleNamespace(sleep=sleep)),
    ):
        yield


@contextlib.contextmanager
def statements(using="default"):
    """Yield the list of the statements that this thread sends while the block runs."""
    seen = []

    def wrapper(execute, sql, params, many, context):
        seen.append(sql)
        return execute(sql, params, many, context)

    with connections[using].execute_wrapper(wrapper):
        yield seen


def deadlock(using="default"):
    """Return the error by which this database tells a deadlock's victim, or a locked file."""
    return _trouble(using, 1213, "DeadlockDetected", "database is locked")


def lock_wait(using="default"):
    """Return the error by which this database ends a wait for a lock."""
    return _trouble(using, 1205, "LockNotAvailable", "database table is locked")


def connection_lost(using="default"):
    """Return the error of a statement whose answer never came."""
    return _trouble(using, 2013, "AdminShutdown", "disk I/O error")


def unwritable(using="default"):
    """Return the error by which this database says that it is read-only now."""
    readonly = "attempt to write a readonly database"
    return _trouble(using, 1290, "ReadOnlySqlTransaction", readonly)


def _trouble(using, mysql, postgres, sqlite):
    vendor = connections[using].vendor
    if vendor == "mysql":
        return OperationalError(mysql, "as the test asked")
    error = OperationalError(sqlite)
    if vendor == "postgresql":
        import psycopg.errors

        error.__cause__ = getattr(psycopg.errors, postgres)("as the test asked")
    return error
