"""The job that a dedup id belongs to: finding it, and what a dispatch may change on it."""

from typing import Any

from django.db import models, transaction
from django.db.models import Case, F, Value, When

from django_leasequeue import db, registry
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.exceptions import DedupConflict, DispatchConflict, UnknownTask
from django_leasequeue.specs import Prepared
from django_leasequeue.states import FINAL, Status


def with_window(rows):
    """Jobs that know whether their dedup window is open, by the database's clock."""
    return rows.annotate(
        in_window=Case(
            When(dedup_until__gt=db.DatabaseNow(), then=Value(True)),
            default=Value(False),
            output_field=models.BooleanField(),
        )
    )


def holds(owner) -> bool:
    """Whether the owner of an id still holds it; `owner` comes from `with_window`."""
    if owner.in_window or owner.dedup_hold == "removed":
        return True
    return owner.dedup_hold == "finished" and owner.status not in FINAL


def check_task(owner, wanted: Prepared) -> None:
    """Raise DedupConflict if the holder is a job of another task."""
    try:
        name = registry.get(owner.task).name
    except UnknownTask:
        name = owner.task
    if name != wanted.values["task"]:
        raise DedupConflict(
            wanted.rules.id,
            wanted.values["queue"],
            wanted.values["task"],
            owner.pk,
            owner.task,
        )


def only_skips(owner, wanted: Prepared) -> bool:
    """Whether this dispatch would change nothing of the holder but its count."""
    return _changes(owner, wanted)[0] is DispatchOutcome.SKIPPED


def only_extends_running(owner, wanted: Prepared) -> bool:
    """Whether the holder runs and only its window would move."""
    return (
        owner.status == Status.RUNNING
        and _changes(owner, wanted)[0] is DispatchOutcome.EXTENDED
    )


def answer(rows, owner, wanted: Prepared) -> DispatchOutcome | None:
    """Change the holder as the dispatch asks and count it.

    One update, guarded by the id, so that it also proves that the row still holds it.
    Returns the word for what was done, or None if the row holds the id no more.
    """
    outcome, columns = _changes(owner, wanted)
    guard = {"pk": owner.pk, "queue": owner.queue, "dedup_id": owner.dedup_id}
    found = rows.filter(**guard, status=owner.status).update(
        **columns, suppressed=F("suppressed") + 1, last_suppressed_at=db.DatabaseNow()
    )
    return outcome if found else None


def answer_later(rows, owner, wanted: Prepared) -> DispatchOutcome:
    """Answer once the caller's transaction has committed, leaving the row unlocked until then.

    For a running holder, whose worker must be able to renew and settle meanwhile.
    """
    outcome, columns = _changes(owner, wanted)

    def write():
        rows.filter(pk=owner.pk, dedup_id=owner.dedup_id).update(
            **columns,
            suppressed=F("suppressed") + 1,
            last_suppressed_at=db.DatabaseNow(),
        )

    transaction.on_commit(write, using=rows.db, robust=True)
    return outcome


def release_id(rows, owner) -> None:
    """Take the id from a job that no longer holds it. The caller has the row locked."""
    # In this order: MySQL assigns from left to right and would copy the null otherwise.
    rows.filter(pk=owner.pk).update(released_dedup_id=F("dedup_id"), dedup_id=None)


def _changes(owner, wanted: Prepared) -> tuple[DispatchOutcome, dict]:
    """Return what the table in DESIGN section 4 says: the word, and the columns to set."""
    asked = wanted.rules
    outcome = DispatchOutcome.SKIPPED
    columns: dict[str, Any] = {}
    if asked.extend and owner.dedup_ttl is not None:
        outcome = DispatchOutcome.EXTENDED
        columns["dedup_until"] = db.DatabaseNow(owner.dedup_ttl)
    if owner.status == Status.PENDING and asked.replace:
        outcome = DispatchOutcome.REPLACED
        columns |= {"args": wanted.values["args"], "kwargs": wanted.values["kwargs"]}
        if asked.postpone:
            columns["run_at"] = wanted.run_at or db.DatabaseNow(wanted.delay)
    if owner.status == Status.RUNNING and asked.rerun:
        outcome = DispatchOutcome.RERUN
        columns["rerun"] = True
        if asked.replace:
            columns |= {
                "next_args": wanted.values["args"],
                "next_kwargs": wanted.values["kwargs"],
            }
    return outcome, columns


def dedup_constraint(rows) -> models.UniqueConstraint:
    """Return the constraint that lets a dedup id belong to one job."""
    return next(
        constraint
        for constraint in rows.model._meta.constraints
        if getattr(constraint, "fields", None) == ("queue", "dedup_id")
    )


def winner_is_hidden(rows, wanted: Prepared, looked: bool) -> bool:
    """After a lost insert: whether only a locking read can find the job that holds the id.

    `looked`: whether one has been made already. Raises DispatchConflict where no read of
    this transaction can find it.
    """
    connection = transaction.get_connection(rows.db)
    if db.reads_are_fresh(connection):
        return False
    if looked or not db.locking_read_is_fresh(connection):
        raise DispatchConflict(
            wanted.rules.id,
            wanted.values["queue"],
            "a job that this transaction's snapshot can't see holds the id",
        )
    return True
