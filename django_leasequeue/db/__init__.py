"""All that differs between the databases, and nothing else.

Everything asks here by meaning ("is this passing trouble?"), so that no other file names a
vendor or an error number.
"""

from django_leasequeue.db.errors import (
    is_connection_lost,
    is_passing_trouble,
    is_violation,
    rerun,
)
from django_leasequeue.db.instants import DatabaseNow, loaded_time, stored_time
from django_leasequeue.db.lanes import Lane, lanes
from django_leasequeue.db.locks import (
    by_key,
    first_inserted_id,
    locking_read_is_fresh,
    reads_are_fresh,
    take,
    wait_for,
    write_transaction,
)
from django_leasequeue.db.schema import PartialIndex, exact_collation

__all__ = [
    "DatabaseNow",
    "Lane",
    "PartialIndex",
    "by_key",
    "exact_collation",
    "first_inserted_id",
    "is_connection_lost",
    "is_passing_trouble",
    "is_violation",
    "lanes",
    "loaded_time",
    "locking_read_is_fresh",
    "reads_are_fresh",
    "rerun",
    "stored_time",
    "take",
    "wait_for",
    "write_transaction",
]
