"""Deleting rows for good, beside everybody who uses the table."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, cast

from django.db import Error, IntegrityError, transaction
from django.db.models import (
    Exists,
    Model,
    OuterRef,
    ProtectedError,
    Q,
    QuerySet,
    RestrictedError,
)
from django.db.models.signals import post_delete, pre_delete

from django_leasequeue.db.errors import is_lock_wait, is_passing_trouble, rerun
from django_leasequeue.db.locks import forced, take, unindexed, write_transaction
from django_leasequeue.db.waits import bounded_transaction

# Seconds to wait for a lock on what hangs on a row: index entries, rows of other models.
# What is locked for longer is left.
_BRIEFLY = 1


def remove(
    rows: QuerySet[Any], ids: list[int], condition: Q, seconds: float
) -> set[int]:
    """Delete those rows of these ids that meet the condition; return their ids.

    In one transaction, or in several if some can't be deleted: rows that somebody has
    locked, or that other models protect, are left. Other models' rows go as their on_delete
    says, and signals are sent if anybody listens, as QuerySet.delete() does it. Each
    transaction runs again through passing trouble, for `seconds`.
    """
    try:
        return rerun(
            partial(_remove, rows, ids, condition),
            using=rows.db,
            seconds=seconds,
            again=_is_soon_over,
        )
    except (ProtectedError, RestrictedError, IntegrityError):
        pass
    except Exception as error:
        if not is_lock_wait(error, transaction.get_connection(rows.db)):
            raise
    if len(ids) == 1:
        return set()
    half = len(ids) // 2
    return remove(rows, ids[:half], condition, seconds) | remove(
        rows, ids[half:], condition, seconds
    )


def _is_soon_over(error: BaseException, connection: Any) -> bool:
    return is_passing_trouble(error, connection) and not is_lock_wait(error, connection)


def _remove(rows: QuerySet[Any], ids: list[int], condition: Q) -> set[int]:
    with (
        _brief_session(rows.db),
        write_transaction(rows),
        _brief_transaction(rows.db),
    ):
        with forced(rows):
            met = rows.filter(unindexed(condition, using=rows.db))
            found = met.filter(pk__in=ids).order_by("pk")
            free = take(found.values_list("pk", flat=True))
            going = met.filter(pk__in=free)
            if not free:
                return set()
            if others_see_deletes(rows.model):
                _delete_as_django_does(going)
                return set(free)
            delete(going)
        delete_leftovers(rows, free)
        return set(free)


def _delete_as_django_does(rows: QuerySet[Any]) -> None:
    """Delete rows, with what hangs on them."""
    if not _is_listened_to(rows.model):
        # Other models' rows are looked for by the key, so the rest need not be read.
        rows = rows.only("pk")
    rows.delete()


def delete(rows: QuerySet[Any]) -> int:
    """Delete rows by one statement; return how many.

    Only where no other app has a say. What belongs to them is left: see delete_leftovers.
    """
    return rows._raw_delete(rows.db)


def delete_leftovers(rows: QuerySet[Any], ids: Iterable[int]) -> None:
    """Delete what belonged to rows of these ids, in this app's other tables."""
    for relation in rows.model._meta.related_objects:
        key = relation.field.attname
        theirs = relation.related_model._base_manager.using(rows.db)
        gone = ~Exists(rows.model._base_manager.filter(pk=OuterRef(key)))
        delete(theirs.filter(gone, **{f"{key}__in": sorted(ids)}))


def others_see_deletes(model: type[Model]) -> bool:
    """Whether code or rows of other apps have a say when a row of the model is deleted."""
    own = model._meta.app_label
    return _is_listened_to(model) or any(
        cast(Any, field.related_model)._meta.app_label != own
        for field in model._meta.get_fields(include_hidden=True)
        if field.auto_created and not field.concrete
    )


def _is_listened_to(model: type[Model]) -> bool:
    return any(signal.has_listeners(model) for signal in (pre_delete, post_delete))


def keys_go_freely(using: str) -> bool:
    """Whether the unique keys of a row can be deleted without waiting for whoever asked for them.

    InnoDB locks the entry of a key for everybody who was told that it is taken, until their
    transaction ends.
    """
    return transaction.get_connection(using).vendor != "mysql"


@contextmanager
def _brief_session(using: str) -> Iterator[None]:
    """Let statements wait for a second at the most, where a session tells that (InnoDB)."""
    connection = transaction.get_connection(using)
    if connection.vendor != "mysql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout")
        usual = cursor.fetchone()[0]
        cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {_BRIEFLY}")
    try:
        yield
    finally:
        # A connection that was lost takes the setting along.
        with suppress(Error), connection.cursor() as cursor:
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {usual}")


def _brief_transaction(using: str) -> AbstractContextManager[None]:
    """The same, where a transaction tells it (PostgreSQL). On SQLite whoever writes is alone."""
    if transaction.get_connection(using).vendor != "postgresql":
        return nullcontext()
    return bounded_transaction(using, _BRIEFLY)
