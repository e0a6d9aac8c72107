"""Who waits to be told of jobs: see django_leasequeue.db.notify."""

from django.db import connection

from django_leasequeue import db


def holders():
    """Return the server's processes that hold the lock of those who wait (PostgreSQL)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND mode = 'ShareLock' AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND classid = %s AND objid = 'leasequeue_job'::regclass::oid",
            [db.notify._LOCK],
        )
        return {pid for (pid,) in cursor.fetchall()}


def all_sleep():
    """Whether no other session has done anything for half a second (PostgreSQL)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND (state <> 'idle'"
            " OR state_change > clock_timestamp() - INTERVAL '0.5 s')"
        )
        return cursor.fetchone() == (0,)
