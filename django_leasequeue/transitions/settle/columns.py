"""The columns of a row that a run's outcome writes."""

from datetime import timedelta
from typing import Any, NamedTuple, assert_never

from django.db.models import F, TextField, Value

from django_leasequeue import db, traces
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.errors import errors_with
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.rounds import UNSUSPECTED, cancelled, new_round
from django_leasequeue.states import Status


class Asked(NamedTuple):
    """What others asked of a job while it ran, and whether its row may go at once."""

    rerun: bool
    cancel: bool
    may_go: bool


def columns_of(job: Claimed, outcome: Outcome, asked: Asked) -> dict[str, Any]:
    """Return what to write for this outcome, given what else was asked."""
    columns = _by_outcome(job, outcome)
    # A dispatch that asked for another run comes first: its work must not be lost. A cancel
    # that the run did not look for still keeps the job from going back to pending.
    if asked.rerun:
        # Of the outcome only the error is kept. The round's own columns come first, since
        # MySQL would read waiting arguments that another column's turn had emptied.
        kept = {name: columns[name] for name in ("errors",) if name in columns}
        columns = {**new_round(), **kept, "status": Status.PENDING}
    elif asked.cancel and isinstance(outcome, RetryLater | Snoozed | Released):
        columns = {**columns, **cancelled()}
        columns.pop("run_at", None)
    return columns | _given_up()


def success_columns(result: Any) -> dict[str, Any]:
    """Return what to write for a success of which nothing else was asked."""
    return _success(result) | _given_up()


def _by_outcome(job: Claimed, outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Succeeded(result):
            return _success(result)
        case Failed(error, counted):
            return {**_failure(job, error, counted), **_final(Status.FAILED)}
        case RetryLater(delay, error, counted):
            return {**_failure(job, error, counted), **_pending(delay)}
        case Snoozed(delay):
            return _pending(delay)
        case Cancelled():
            return cancelled()
        case Released(lost=True):
            told = _released(job, traces.LEASE_LOST)
            lost = {"recoveries": F("recoveries") + 1, "suspect": 1}
            return {**told, **lost, "status": Status.PENDING}
        case Released(why=str(why)):
            return {**_released(job, why), "status": Status.PENDING}
        case Released():
            return {"status": Status.PENDING}
        case _:
            assert_never(outcome)


def results_of(group: list[tuple[Claimed, Outcome]]) -> Any:
    """Return what to write as the results of these successes, by one expression for all."""
    texts = {job.id: done.result for job, done in group if isinstance(done, Succeeded)}
    if len(set(texts.values())) > 1:
        return db.TextByKey(texts)
    [text] = set(texts.values())
    return None if text is None else Value(text, output_field=TextField())


def _success(result: Any) -> dict[str, Any]:
    attempts = F("attempts") + 1
    return {"attempts": attempts, "result": result, **_final(Status.SUCCEEDED)}


def _failure(job: Claimed, error: dict[str, Any], counted: bool) -> dict[str, Any]:
    return {
        "attempts": F("attempts") + int(counted),
        "errors": errors_with(job.errors, error, conf.max_errors),
    }


def _released(job: Claimed, why: str) -> dict[str, Any]:
    # Of several that share an update the worker is the same, and their claims may not be.
    return traces.noted(
        traces.RELEASED, job.database_time(), worker=job.worker, why=why
    )


def _final(status: Status) -> dict[str, Any]:
    return {"finished_at": db.DatabaseNow(), "status": status}


def _pending(delay: timedelta) -> dict[str, Any]:
    return {"run_at": db.DatabaseNow(delay), **UNSUSPECTED, "status": Status.PENDING}


def _given_up() -> dict[str, Any]:
    # In this order: MySQL reads the token before it is emptied.
    return {
        "last_token": F("processing_token"),
        "processing_until": None,
        "processing_token": None,
    }
