"""What follows a run that does not simply end: a new round, or the cancel that was asked for."""

from typing import Any

from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Coalesce

from django_leasequeue import db, traces
from django_leasequeue.conf import conf
from django_leasequeue.errors import describe_death, errors_with
from django_leasequeue.fields import NOW
from django_leasequeue.states import Status

# Characters of the name of a step.
LONGEST_STEP = 255
# What a job is again once it has recorded something, or starts anew.
UNSUSPECTED = {"recoveries": 0, "lost_alone": 0, "suspect": 0}


def afresh() -> dict[str, Any]:
    """Return the columns by which another round starts with nothing of the last; errors stay.

    Its steps are left behind, since they are its own round's.
    """
    return {
        "round": F("round") + 1,
        "attempts": 0,
        **UNSUSPECTED,
        "result": None,
        "progress": None,
    }


def new_round() -> dict[str, Any]:
    """Return the columns that start another round, due now, with the waiting arguments if any.

    In this order: MySQL assigns from left to right, so what is read comes before what
    empties it.
    """
    text = TextField()
    return {
        "args": Coalesce(F("next_args"), F("args"), output_field=text),
        "kwargs": Coalesce(F("next_kwargs"), F("kwargs"), output_field=text),
        "next_args": None,
        "next_kwargs": None,
        **afresh(),
        "rerun": False,
        "cancel_requested_at": None,
        "run_at": db.DatabaseNow(),
    }


def cancelled() -> dict[str, Any]:
    """Return the columns that end a job because somebody asked for it."""
    return {
        "next_args": None,
        "next_kwargs": None,
        "rerun": False,
        "blocked": 0,
        "finished_at": db.DatabaseNow(),
        "status": Status.CANCELLED,
    }


def interrupted(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return the rows as `after_interruption` wants them, with their queues and tokens."""
    return rows.annotate(now=NOW).values_list(
        "pk",
        "queue",
        "processing_token",
        "claims",
        "rerun",
        "cancel_requested_at",
        "errors",
        "attempts",
        "suspect",
        "worker",
        "concurrency_key",
        "last_attempted_at",
        "now",
        named=True,
    )


def after_interruption(
    row: Any, death: str | None, alone: bool = False, why: str | None = None
) -> dict[str, Any]:
    """Return the columns of a job whose run was cut short, by a stop or a lost worker.

    `death`: how the worker was lost, which is kept in the errors, and counted unless that
    is the job's end; None for a stop. `alone`: whether that worker ran nothing else; only
    then is the loss held against the job, see docs/reliability.md. `why`: of a stop, a word
    for the job's events; None if there is nothing to tell. A dispatch that asked for another
    run comes before a cancel: its work must not be lost.
    """
    if row.rerun:
        # A new round has counts of its own.
        changes: dict[str, Any] = {**new_round(), "status": Status.PENDING}
    elif row.cancel_requested_at is not None:
        changes = cancelled()
    else:
        changes = {"status": Status.PENDING}
        if death is not None:
            changes["recoveries"] = F("recoveries") + 1
            changes["lost_alone"] = F("lost_alone") + int(alone)
            changes["suspect"] = 1
    if death is not None:
        entry = describe_death(
            death,
            attempt=row.attempts + 1,
            worker=row.worker,
            at=row.now,
            started_at=row.last_attempted_at,
        )
        changes["errors"] = errors_with(row.errors, entry, conf.max_errors)
    elif why is not None:
        since = row.last_attempted_at and row.last_attempted_at.isoformat()
        changes |= traces.noted(
            traces.RELEASED, row.now, worker=row.worker, started_at=since, why=why
        )
    return {**changes, "processing_until": None, "processing_token": None}
