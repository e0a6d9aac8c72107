"""Connections that a thread does not need for now."""

from django.db import connections


def close_idle() -> None:
    """Close this thread's connections, but for one on which the caller has a transaction.

    That is so if a worker is run from code that is in one, as in a test.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
