"""All that differs between the databases, and nothing else.

Everything asks here by meaning ("is this passing trouble?"), so that no other file names a
vendor or an error number.
"""

from django_leasequeue.db.bulk_inserts import insert_rows
from django_leasequeue.db.by_key import TextByKey
from django_leasequeue.db.changes import Marks
from django_leasequeue.db.counters import increment_if_free, update_free
from django_leasequeue.db.errors import (
    in_transaction,
    is_connection_lost,
    is_lock_wait,
    is_passing_trouble,
    is_sequence_behind,
    is_unwritable,
    is_violation,
    rerun,
    saying_what_to_migrate,
)
from django_leasequeue.db.given import Given
from django_leasequeue.db.guarded_inserts import insert_from
from django_leasequeue.db.ids import (
    bulk_insert_returns_ids,
    first_inserted_id,
    reserve_ids,
    update_in_order,
)
from django_leasequeue.db.inserts import insert_row
from django_leasequeue.db.instances import inserted
from django_leasequeue.db.instants import DatabaseNow, loaded_time, stored_time
from django_leasequeue.db.lanes import QUEUES, Lane, lanes
from django_leasequeue.db.locks import (
    by_key,
    forced,
    has_row_locks,
    keeps_others_out,
    locking_read_is_fresh,
    reads_are_fresh,
    take,
    take_write_lock,
    unindexed,
    wait_for,
    wait_for_unchanged,
    write_transaction,
)
from django_leasequeue.db.notify import (
    Line,
    SharedSession,
    can_listen,
    no_notify_statements,
    notify_statements,
    tell_workers,
)
from django_leasequeue.db.prepared import prepared
from django_leasequeue.db.removal import (
    delete,
    delete_leftovers,
    keys_go_freely,
    others_see_deletes,
    remove,
)
from django_leasequeue.db.schema import Exactly, PartialIndex, exact_collation
from django_leasequeue.db.storage import storage_statements, usual_storage_statements
from django_leasequeue.db.taking import Taking
from django_leasequeue.db.waits import BoundedNow, bounded_transaction, waiting_at_most

__all__ = [
    "QUEUES",
    "BoundedNow",
    "DatabaseNow",
    "Exactly",
    "Given",
    "Lane",
    "Line",
    "Marks",
    "PartialIndex",
    "SharedSession",
    "Taking",
    "TextByKey",
    "bounded_transaction",
    "bulk_insert_returns_ids",
    "by_key",
    "can_listen",
    "delete",
    "delete_leftovers",
    "exact_collation",
    "first_inserted_id",
    "forced",
    "has_row_locks",
    "in_transaction",
    "increment_if_free",
    "insert_from",
    "insert_row",
    "insert_rows",
    "inserted",
    "is_connection_lost",
    "is_lock_wait",
    "is_passing_trouble",
    "is_sequence_behind",
    "is_unwritable",
    "is_violation",
    "keeps_others_out",
    "keys_go_freely",
    "lanes",
    "loaded_time",
    "locking_read_is_fresh",
    "no_notify_statements",
    "notify_statements",
    "others_see_deletes",
    "prepared",
    "reads_are_fresh",
    "remove",
    "rerun",
    "reserve_ids",
    "saying_what_to_migrate",
    "storage_statements",
    "stored_time",
    "take",
    "take_write_lock",
    "tell_workers",
    "unindexed",
    "update_free",
    "update_in_order",
    "usual_storage_statements",
    "wait_for",
    "wait_for_unchanged",
    "waiting_at_most",
    "write_transaction",
]
