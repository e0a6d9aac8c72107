"""All that differs between the databases, and nothing else.

Everything asks here by meaning ("is this passing trouble?"), so that no other file names a
vendor or an error number.
"""

from django_leasequeue.db.bulk_inserts import insert_rows
from django_leasequeue.db.by_key import MOST_TEXT, GivenTexts, TextByKey
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
from django_leasequeue.db.first_keys import first_keys, key_ranges
from django_leasequeue.db.given import Given, GivenList
from django_leasequeue.db.guarded_inserts import insert_from
from django_leasequeue.db.ids import (
    bulk_insert_returns_ids,
    first_inserted_id,
    reserve_ids,
    update_in_order,
)
from django_leasequeue.db.inserts import insert_row
from django_leasequeue.db.instances import inserted
from django_leasequeue.db.instants import (
    DatabaseNow,
    Sortable,
    database_now,
    loaded_time,
    stored_time,
)
from django_leasequeue.db.kept import is_own_session, keep_statements
from django_leasequeue.db.keyed import KeyedUpdate, RowsChanged
from django_leasequeue.db.kinds import bounded_counts, finished_kinds, newest
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
from django_leasequeue.db.scans import without_scans
from django_leasequeue.db.schema import (
    Exactly,
    PartialIndex,
    PartialUnique,
    exact_collation,
)
from django_leasequeue.db.storage import storage_statements, usual_storage_statements
from django_leasequeue.db.taking import Taking
from django_leasequeue.db.transactions import on_commit
from django_leasequeue.db.waits import BoundedNow, bounded_transaction, waiting_at_most
from django_leasequeue.db.writable import takes_writes

__all__ = [
    "MOST_TEXT",
    "QUEUES",
    "BoundedNow",
    "DatabaseNow",
    "Exactly",
    "Given",
    "GivenList",
    "GivenTexts",
    "KeyedUpdate",
    "Lane",
    "Line",
    "Marks",
    "PartialIndex",
    "PartialUnique",
    "RowsChanged",
    "SharedSession",
    "Sortable",
    "Taking",
    "TextByKey",
    "bounded_counts",
    "bounded_transaction",
    "bulk_insert_returns_ids",
    "by_key",
    "can_listen",
    "database_now",
    "delete",
    "delete_leftovers",
    "exact_collation",
    "finished_kinds",
    "first_inserted_id",
    "first_keys",
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
    "is_own_session",
    "is_passing_trouble",
    "is_sequence_behind",
    "is_unwritable",
    "is_violation",
    "keep_statements",
    "keeps_others_out",
    "key_ranges",
    "keys_go_freely",
    "lanes",
    "loaded_time",
    "locking_read_is_fresh",
    "newest",
    "no_notify_statements",
    "notify_statements",
    "on_commit",
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
    "takes_writes",
    "tell_workers",
    "unindexed",
    "update_free",
    "update_in_order",
    "usual_storage_statements",
    "wait_for",
    "wait_for_unchanged",
    "waiting_at_most",
    "without_scans",
    "write_transaction",
]
