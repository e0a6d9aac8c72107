"""What a claim reads of each row, and the jobs that it makes of them."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import Expression, ExpressionWrapper, F, TextField

from django_leasequeue import db
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.selection import Selection

_RUN_AT = db.Sortable("run_at")
# Each as it is stored. JSON stays text until it is used: a broken one is its job's affair.
COLUMNS: tuple[str | Expression, ...] = (
    "id",
    "queue",
    "priority",
    _RUN_AT,
    "last_attempted_at",
    "task",
    *(
        ExpressionWrapper(F(name), TextField())
        for name in ("args", "kwargs", "meta", "errors")
    ),
    "attempts",
    "max_attempts",
    "recoveries",
    "lost_alone",
    "claims",
    "round",
    "concurrency_key",
    "concurrency_limit",
)
# The places of what a slot is given by.
CANDIDATE = tuple(
    COLUMNS.index(name)
    for name in (
        "id",
        "queue",
        "priority",
        _RUN_AT,
        "claims",
        "concurrency_key",
        "concurrency_limit",
    )
)
KEY = COLUMNS.index("concurrency_key")


def claims_of(
    found: Iterable[tuple[Any, ...]],
    selection: Selection,
    token: UUID,
    worker: str,
    sent_at: float,
) -> list[Claimed]:
    """Return the jobs of rows in the order of COLUMNS, sorted as they are to be run."""
    made = []
    of_queues: dict[str, tuple[int | None, float, float]] = {}
    for pk, queue, priority, run_at, claimed_at, *rest, _ in found:
        if queue not in of_queues:
            lease, buffer = conf.lease(queue), conf.safety_buffer(queue)
            of_queues[queue] = selection.rank(queue), lease, buffer
        rank, lease, buffer = of_queues[queue]
        values: tuple[Any, ...] = (pk, queue, *rest, worker, token, claimed_at)
        values += (lease, buffer, sent_at)
        made.append((rank, -priority, run_at, pk, Claimed(*values)))
    made.sort()
    return [job for *_, job in made]
