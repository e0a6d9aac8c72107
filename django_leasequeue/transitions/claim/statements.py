"""The statements of a claim: which rows it finds, and what it writes into them."""

from functools import partial
from typing import Any

from django.db.models import (
    BigIntegerField,
    F,
    QuerySet,
    SmallIntegerField,
    TextField,
    UUIDField,
    Value,
)
from django.db.models.functions import Coalesce, Concat, Right

from django_leasequeue import db
from django_leasequeue.fields import UTCDateTimeField
from django_leasequeue.states import AWAITS_SLOT, Status
from django_leasequeue.transitions.claim.columns import COLUMNS

# Characters kept of the list of workers that claimed a job: some sixty names.
WORKER_IDS = 4000


def _due_in_lane(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.filter(
        status=Status.PENDING,
        blocked=0,
        suspect=db.Given("suspect", SmallIntegerField()),
        queue=db.Given("queue", TextField()),
        priority=db.Given("priority", SmallIntegerField()),
        run_at__lte=db.DatabaseNow(),
    ).order_by("run_at", "id")


def _due_without_key(rows: QuerySet[Any]) -> QuerySet[Any]:
    return _due_in_lane(rows).filter(concurrency_key__isnull=True)


def _pending_of_id(rows: QuerySet[Any]) -> QuerySet[Any]:
    pk = db.Given("id", BigIntegerField())
    free = {"status": Status.PENDING, "blocked__in": [0, AWAITS_SLOT]}
    return rows.filter(pk=pk, **free).order_by("pk")


def _marks() -> dict[str, Any]:
    now, worker = db.DatabaseNow(), db.Given("worker", TextField())
    return {
        "claims": F("claims") + 1,
        "worker": worker,
        "worker_ids": Right(
            Concat(F("worker_ids"), worker, Value("\n"), output_field=TextField()),
            WORKER_IDS,
        ),
        "started_at": Coalesce(F("started_at"), now, output_field=UTCDateTimeField()),
        "last_attempted_at": now,
        "processing_token": db.Given("token", UUIDField()),
        "processing_until": db.DatabaseNow(db.Given("lease")),
        "status": Status.RUNNING,
    }


_taking = partial(
    db.Taking,
    state={"status": Status.PENDING},
    columns=COLUMNS,
    now="last_attempted_at",
)
TAKING = _taking(find=_due_in_lane, through="leasequeue_claim", changes=_marks())
# One statement, where a statement can be enough: no job that needs a slot may be in it.
TAKING_WITHOUT_KEY = _taking(
    find=_due_without_key, through="leasequeue_claim", changes=_marks()
)
TAKING_ONE = _taking(
    find=_pending_of_id, through="PRIMARY", changes={"blocked": 0, **_marks()}
)
