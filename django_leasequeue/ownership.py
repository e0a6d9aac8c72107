"""The job that has a dedup id: whether it holds the id, and taking it away."""

from typing import Any

from django.db import models
from django.db.models import Case, F, Value, When

from django_leasequeue import db
from django_leasequeue.states import FINAL


def with_window(rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """Jobs that know whether their dedup window is open, by the database's clock."""
    return rows.annotate(
        in_window=Case(
            When(dedup_until__gt=db.DatabaseNow(), then=Value(True)),
            default=Value(False),
            output_field=models.BooleanField(),
        )
    )


def holds(owner: Any) -> bool:
    """Whether the owner of an id still holds it; `owner` comes from `with_window`."""
    if owner.in_window or owner.dedup_hold == "removed":
        return True
    return owner.dedup_hold == "finished" and owner.status not in FINAL


def released() -> dict[str, Any]:
    """Return the columns that take its dedup id from a job that holds it no longer.

    In this order: MySQL assigns from left to right and would copy the null otherwise.
    """
    return {"released_dedup_id": F("dedup_id"), "dedup_id": None}


def regained() -> dict[str, Any]:
    """Return the columns that give it back."""
    return {"dedup_id": F("released_dedup_id"), "released_dedup_id": None}
