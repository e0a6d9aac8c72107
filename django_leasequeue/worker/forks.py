"""What a task forks shares no database connection with the worker, and is no second worker.

A forked process inherits the sockets of every thread. One query or one close there, even
the one that Python makes at its end, breaks the connection for its owner: on MySQL a single
`os.fork()` that ends by `sys.exit()` cuts off every thread of the worker [tried].
"""

import contextlib
import os
import weakref
from typing import Any

from django.db.backends.signals import connection_created

from django_leasequeue.worker import exits

_known: weakref.WeakSet[Any] = weakref.WeakSet()
# Kept for ever in a forked process: a driver that is collected says goodbye to the server.
_inherited: list[Any] = []
_guarding = False


def guard() -> None:
    """From now on, give up inherited connections in every process that is forked.

    Covers those that are opened after this call. Calling it again does nothing.
    """
    global _guarding
    if not _guarding:
        _guarding = True
        if hasattr(os, "register_at_fork"):  # Windows forks nothing
            connection_created.connect(_remember)
            os.register_at_fork(after_in_child=_give_up_connections)


class Original:
    """A block that runs code of the project's, which a process forked there does not leave.

    It is ended by `end_copy` instead.
    """

    __slots__ = ("_process",)

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        if os.getpid() != self._process:
            end_copy(error)


def end_copy(error: BaseException | None) -> None:
    """End this process: a copy of the worker that a task or a hook forked, and that left it.

    It must not go on as a second worker with the first one's jobs. The exit status is what
    Python would give for `error`, the exception that left the task, if any.
    """
    status: Any = 0 if error is None else 1
    if isinstance(error, SystemExit):
        status = 0 if error.code is None else error.code
    exits.at_once(status if isinstance(status, int) else 1)


def _remember(connection: Any, **_: Any) -> None:
    _known.add(connection)


def _give_up_connections() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for connection in list(_known):
        driver = connection.connection
        if driver is None:
            continue
        _inherited.append(driver)
        # SQLite has no socket, and a driver that is closed none any more.
        with contextlib.suppress(Exception):
            # Whatever the driver still sends goes nowhere.
            os.dup2(nowhere, driver.fileno(), inheritable=False)
        forget(connection)
    os.close(nowhere)


def forget(connection: Any) -> None:
    """Make Django's wrapper as good as new, without a word to the server."""
    connection.connection = None
    connection.in_atomic_block = False
    connection.closed_in_transaction = False
    connection.needs_rollback = False
    connection.savepoint_ids = []
    connection.atomic_blocks = []
    connection.run_on_commit = []
