"""Reading by indexes alone."""

import contextlib
from collections.abc import Iterator

from django.db import transaction

# Bitmaps, too: by them it would read a whole queue for the few of its jobs next to an id.
_KINDS = ("enable_seqscan", "enable_bitmapscan")


@contextlib.contextmanager
def without_scans(using: str) -> Iterator[None]:
    """Let no statement of the block read a table from end to end if an index will do.

    On PostgreSQL, whose planner takes a whole table for cheaper than some thousand of its
    rows, and has no hints; in a transaction, since a pooler may give the session to others
    after it. Elsewhere nothing: see `forced`.
    """
    connection = transaction.get_connection(using)
    if connection.vendor != "postgresql":
        yield
        return
    is_within = connection.in_atomic_block
    # What raises in somebody's own transaction leaves it changed to its end, which follows.
    block = contextlib.nullcontext() if is_within else transaction.atomic(using)
    with block, connection.cursor() as cursor:
        asked = ", ".join(f"current_setting('{kind}') AS {kind}" for kind in _KINDS)
        changed = ", ".join(f"set_config('{kind}', 'off', true)" for kind in _KINDS)
        cursor.execute(
            f"SELECT {', '.join(_KINDS)}, {changed} FROM (SELECT {asked} OFFSET 0) now"
        )
        before = cursor.fetchone()[: len(_KINDS)]
        yield
        if is_within:
            put_back = ", ".join(f"set_config('{kind}', %s, true)" for kind in _KINDS)
            cursor.execute(f"SELECT {put_back}", before)
