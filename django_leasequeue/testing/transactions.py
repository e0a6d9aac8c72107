"""What becomes of the transactions that a test has open, as of each run inside them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import DatabaseError, connections
from django.test import TestCase


@contextmanager
def committing() -> Iterator[None]:
    """Call at the end what was given to on_commit() where the test has a transaction open.

    Once: a capture of on_commit() that the test has around it finds nothing of it left.
    """
    with ExitStack() as commits:
        for connection in _in_transactions():
            commits.callback(_forget, connection, len(connection.run_on_commit))
            captured = TestCase.captureOnCommitCallbacks(
                using=connection.alias, execute=True
            )
            commits.enter_context(captured)
        yield
        with mending():
            commits.close()


@contextmanager
def mending(but: str | None = None) -> Iterator[None]:
    """Give back as it was a transaction of the test's that is broken meanwhile.

    By an error of the database that a task, a callback or what they gave to on_commit()
    met, which elsewhere has no more than its own statement undone, or the task's own
    transaction. What was to be called at the commit of what is undone here is not called.
    What was broken before stays so.
    `but`: an alias to leave alone.
    """
    marks = [
        (one, one.savepoint(), len(one.run_on_commit))
        for one in _in_transactions()
        if one.alias != but and not one.needs_rollback
    ]
    yield
    for connection, mark, registered in marks:
        if not connection.needs_rollback:
            try:
                connection.savepoint_commit(mark)
                continue
            except DatabaseError:
                pass  # PostgreSQL's, after an error that Django was not told of
        connection.needs_rollback = False
        connection.savepoint_rollback(mark)
        _forget(connection, registered)


def _forget(connection: Any, registered: int) -> None:
    del connection.run_on_commit[registered:]


def _in_transactions() -> list[Any]:
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
    ]
