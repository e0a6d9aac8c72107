"""Step: running -> running, with one more thing that its round has done for good.

One statement inserts the step and looks whether the job is still this run's, with the job's
row locked meanwhile: a worker that lost its lease records nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    F,
    OuterRef,
    QuerySet,
    Value,
    When,
)

from django_leasequeue import db
from django_leasequeue.claimed import Claimed, held
from django_leasequeue.exceptions import JobRunAborted
from django_leasequeue.rounds import UNSUSPECTED
from django_leasequeue.states import Status

# Seconds for which it runs again by itself; the run asks again while its lease lasts.
RERUN_FOR = 1.0


def record_step(
    rows: QuerySet[Any],
    job: Claimed,
    name: str,
    result: str,
    seconds: float,
    first: bool,
) -> bool:
    """Record a step of a running job; return False if somebody has the job's row locked.

    `result`: JSON text. `seconds`: how long the step ran. `first`: whether no other was
    recorded in this run; then the losses of workers before it count no more, and steps of
    earlier rounds go. Once more with the same name, it does nothing: the answer to the first
    was lost. Raises JobRunAborted if the job is not this run's any more, the database's
    error if passing trouble does not pass within a second.
    """
    write = partial(_record, rows, job, name, result, seconds, first)
    if db.in_transaction(transaction.get_connection(rows.db)):
        write = partial(_in_savepoint, rows, write)
    try:
        if db.rerun(write, using=rows.db, seconds=RERUN_FOR):
            return True
    except IntegrityError as error:
        steps = _steps(rows)
        [unique] = steps.model._meta.constraints
        if not db.is_violation(error, unique, steps.model):
            raise
        return True
    why = _why_lost(rows, job)
    if why is not None:
        raise JobRunAborted(job.id, why)
    return False


def _record(
    rows: QuerySet[Any],
    job: Claimed,
    name: str,
    result: str,
    seconds: float,
    first: bool,
) -> bool:
    is_new = job.claims == 1
    if not first or is_new:
        return _insert(rows, job, name, result, seconds)
    with db.write_transaction(rows):
        if not db.take(held(rows, job).values_list("pk", flat=True)):
            return False
        if job.recoveries:
            held(rows, job).update(**UNSUSPECTED)
        if job.round > 1:
            mine = rows.filter(pk=OuterRef("job_id"), processing_token=job.token)
            of_job = _steps(rows).filter(job_id=job.id)
            of_job.filter(Exists(mine), round__lt=job.round).delete()
        return _insert(rows, job, name, result, seconds)


def _in_savepoint(rows: QuerySet[Any], write: Callable[[], Any]) -> bool:
    # A step that is there already must not spoil somebody's transaction.
    with transaction.atomic(using=rows.db):
        return write()


def _insert(
    rows: QuerySet[Any], job: Claimed, name: str, result: str, seconds: float
) -> bool:
    new = {
        "job": F("pk"),
        "round": F("round"),
        "name": name,
        "result": Value(result),
        "seconds": seconds,
        "attempt": F("attempts") + 1,
        "worker": F("worker"),
        "recorded_at": db.DatabaseNow(),
    }
    return bool(db.insert_from(_steps(rows), held(rows, job), new))


def _steps(rows: QuerySet[Any]) -> QuerySet[Any]:
    relation = rows.model._meta.get_field("steps")
    return relation.related_model._base_manager.using(rows.db)


def _why_lost(rows: QuerySet[Any], job: Claimed) -> str | None:
    """Return why the job is not this run's any more; None if it is, but its row is locked."""
    lasts = Case(
        When(processing_until__gt=db.DatabaseNow(job.buffer), then=Value(True)),
        default=Value(False),
        output_field=BooleanField(),
    )
    columns = ("claims", "status", "processing_token", "lasts")
    now = rows.filter(pk=job.id).annotate(lasts=lasts).values(*columns).first()
    if now is None:
        return "its row was removed"
    if now["claims"] != job.claims:
        return "another worker has claimed it since"
    if now["status"] != Status.RUNNING or now["processing_token"] != job.token:
        return f"it was given back and is {now['status']}"
    return None if now["lasts"] else "its lease ended before the step was recorded"
