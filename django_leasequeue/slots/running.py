"""Who has a slot: claims, as the rows of slots name them, that still run."""

from collections.abc import Iterable
from typing import Any

from django.db.models import BooleanField, Case, QuerySet, Value, When

from django_leasequeue import db
from django_leasequeue.slots.rows import Holder, slots_of
from django_leasequeue.states import Status


def holders(rows: QuerySet[Any], key: str) -> list[int]:
    """Return the ids of the jobs that have a slot of the key now, without a lock."""
    noted = list(slots_of(rows).filter(key=key).values_list("holders", flat=True))
    return sorted(pk for pk, _ in still_running(rows, noted))


def still_running(
    rows: QuerySet[Any], noted: Iterable[Any], *, locking: bool = False
) -> set[Holder]:
    """Return those of these holders whose claims still run on a lease that lasts.

    `locking`: in a transaction, and certain: a lease that is past counts only if no renewal
    is on its way to the row. Anything doubtful counts as running.
    """
    wanted = {holder for one in noted for holder in read_holders(one)}
    if not wanted:
        return set()
    past = Case(
        When(processing_until__lte=db.DatabaseNow(), then=Value(True)),
        default=Value(False),
        output_field=BooleanField(),
    )
    running = db.by_key(rows, sorted({pk for pk, _ in wanted}), status=Status.RUNNING)
    found = list(
        running.annotate(past=past).order_by().values_list("pk", "claims", "past")
    )
    ended = {pk for pk, _, is_past in found if is_past}
    if ended and locking:
        still = {"status": Status.RUNNING, "processing_until__lte": db.DatabaseNow()}
        certain = db.by_key(rows, sorted(ended), **still).order_by("pk")
        ended = set(db.take(certain.values_list("pk", flat=True), "PRIMARY"))
    return wanted & {(pk, claims) for pk, claims, _ in found if pk not in ended}


def read_holders(noted: Any) -> list[Holder]:
    # What somebody wrote by hand is nobody's claim.
    pairs = noted if isinstance(noted, list) else []
    return [(pair[0], pair[1]) for pair in pairs if _is_holder(pair)]


def _is_holder(pair: Any) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(number, int) for number in pair)
    )
