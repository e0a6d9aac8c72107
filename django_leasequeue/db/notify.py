"""PostgreSQL's NOTIFY: a trigger tells the workers that wait, and costs next to nothing else.

A NOTIFY makes commits queue up behind one another, so one for every dispatch would halve
what eight dispatchers do at a time. Workers that wait hold a shared advisory lock. The
trigger looks whether it is held, by taking it exclusively for no longer than one expression,
and notifies only then. The lock is in the server's memory and belongs to a session: a look
costs some microseconds, sees the present whatever the caller's snapshot is, and ends with the
worker, however that ends.

Names are bound to the table's id, which no renaming of tables or schemas changes, and which
no two tables of a database share.
"""

from typing import Any

from django.db import connections

from django_leasequeue.db.kept import is_own_session
from django_leasequeue.states import Status

# The first key of the lock, "LEQU"; the second is the table's id.
_LOCK = 0x4C455155
_CHANNEL = "leasequeue_"
# Both, since a condition needs whole rows: an insert of many calls the function once, an
# update not at all, but for the rows that it makes due.
_INSERTED, _UPDATED = "leasequeue_inserted", "leasequeue_made_due"

# One expression, between whose calls no session is interrupted: else one might be cancelled
# with the lock in its hands.
_FUNCTION = f"""
CREATE OR REPLACE FUNCTION leasequeue_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (CASE WHEN pg_catalog.pg_try_advisory_lock({_LOCK}, TG_RELID::pg_catalog.int4)
        THEN pg_catalog.pg_advisory_unlock({_LOCK}, TG_RELID::pg_catalog.int4)
        ELSE FALSE END)
    THEN
        PERFORM pg_catalog.pg_notify('{_CHANNEL}' || TG_RELID, '');
    END IF;
    RETURN NULL;
END $$
"""
_TRIGGERS = f"""
CREATE OR REPLACE TRIGGER {_INSERTED} AFTER INSERT ON {{table}}
FOR EACH STATEMENT EXECUTE FUNCTION leasequeue_notify();
CREATE OR REPLACE TRIGGER {_UPDATED} AFTER UPDATE OF status, run_at, blocked ON {{table}}
FOR EACH ROW WHEN (
    NEW.status = '{Status.PENDING.value}' AND NEW.blocked = 0
    AND (OLD.status <> NEW.status OR OLD.blocked <> 0 OR NEW.run_at < OLD.run_at)
) EXECUTE FUNCTION leasequeue_notify()
"""


def notify_statements(connection: Any, table: str) -> list[str]:
    """Return what makes the job table notify; nothing where there is no NOTIFY."""
    if connection.vendor != "postgresql":
        return []
    triggers = _TRIGGERS.format(table=connection.ops.quote_name(table))
    return [_FUNCTION, *triggers.split(";")]


def no_notify_statements(connection: Any, table: str) -> list[str]:
    """Return what takes that back."""
    if connection.vendor != "postgresql":
        return []
    quoted = connection.ops.quote_name(table)
    return [
        f"DROP TRIGGER IF EXISTS {_INSERTED} ON {quoted}",
        f"DROP TRIGGER IF EXISTS {_UPDATED} ON {quoted}",
        "DROP FUNCTION IF EXISTS leasequeue_notify()",
    ]


def tell_workers(using: str, table: str) -> None:
    """Tell workers that there may be jobs in the job table; elsewhere they look by themselves."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT pg_catalog.pg_notify('{_CHANNEL}' || %s::regclass::oid::text, '')",
            [connection.ops.quote_name(table)],
        )


def can_be_told() -> bool:
    """Whether the driver for PostgreSQL is one that a `Line` works with."""
    # Here, since it needs a driver for PostgreSQL.
    from django.db.backends.postgresql import psycopg_any

    return psycopg_any.is_psycopg3


def can_listen(connection: Any) -> bool:
    """Whether a `Line` on this connection's database makes sense."""
    if connection.vendor != "postgresql" or not can_be_told():
        return False
    # Set for poolers that share sessions among their clients, as Django's docs ask for.
    return not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")


class SharedSession(Exception):
    """A pooler hands the session's statements to sessions of its own."""


class Line:
    """A session that is told of new jobs, on this thread's connection to `using`.

    While it `waits`, dispatches tell it. Raises the database's errors, and SharedSession.
    """

    def __init__(self, using: str, table: str, idle_seconds: int) -> None:
        self._connection = connections[using]
        self._heard = 0
        self.waits = False
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT PG_BACKEND_PID(), oid::int4, oid::text FROM pg_class"
                " WHERE oid = %s::regclass",
                [self._connection.ops.quote_name(table)],
            )
            pid, self._table, text = cursor.fetchone()
            self._driver = self._connection.connection
            # Before anything is set on a session that may be anybody's.
            if not is_own_session(self._connection, pid):
                raise SharedSession("a pooler stands before the server")
            # A worker that is stopped or cut off must not be told for ever.
            cursor.execute(
                "SELECT SET_CONFIG('idle_session_timeout', %s, FALSE),"
                " SET_CONFIG('tcp_user_timeout', %s, FALSE)",
                [f"{idle_seconds}s"] * 2,
            )
            self._driver.add_notify_handler(self._hear)
            cursor.execute(f"LISTEN {_CHANNEL}{text}")

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is something to `hear()`."""
        return self._driver.fileno()

    def hear(self) -> int:
        """Return how many notifications have come since the last call. Waits for none."""
        server = self._driver.pgconn
        server.consume_input()
        while server.notifies():
            self._heard += 1
        heard, self._heard = self._heard, 0
        return heard

    def wait(self) -> None:
        """Be told from now on."""
        self._call("pg_advisory_lock_shared")
        self.waits = True

    def rest(self) -> None:
        """Be told no more, unless others wait."""
        self._call("pg_advisory_unlock_shared")
        self.waits = False

    def check(self) -> None:
        """Tell the server that this worker lives, and see whether the server does."""
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def _call(self, function: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s, %s)", [_LOCK, self._table])

    def _hear(self, _: Any) -> None:
        # Came along with the answer to a statement.
        self._heard += 1
