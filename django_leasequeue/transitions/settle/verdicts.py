"""What became of outcomes: written, or why not."""

from collections import defaultdict
from enum import Enum
from typing import Any, NamedTuple

from django.db.models import BooleanField, Case, QuerySet, Value, When

from django_leasequeue import db
from django_leasequeue.claimed import Claimed
from django_leasequeue.outcomes import Cancelled, Outcome
from django_leasequeue.states import Status

_NOW = (
    "pk",
    "status",
    "claims",
    "processing_token",
    "last_token",
    "cancel_requested_at",
    "worker",
    "lasts",
)


class Verdict(Enum):
    """What became of one outcome."""

    WRITTEN = "written"
    # Never to be written: another claim, a final state, no row, or the lease is past.
    LOST = "lost"
    # Somebody holds the row locked; the lease still lasts, so try again.
    BUSY = "busy"


class Settled(NamedTuple):
    """A verdict; for a lost one `holder` names the worker of the row now, and `why`.

    `cancelled`: whether the job ended as cancelled, be it instead of going back to pending.
    """

    verdict: Verdict
    holder: str | None = None
    why: str = ""
    cancelled: bool = False


def explain(
    rows: QuerySet[Any], missed: list[tuple[Claimed, Outcome]], recognise: bool = True
) -> dict[tuple[int, int], Settled]:
    """Read the rows that were missed, without a lock, and tell busy ones from lost ones.

    `recognise`: see settle().
    """
    by_buffer = defaultdict(list)
    for job, outcome in missed:
        by_buffer[job.buffer].append((job, outcome))
    verdicts = {}
    for buffer, some in by_buffer.items():
        # In one look with the rest: of two, the second could miss what the first still saw.
        lasts = Case(
            When(processing_until__gt=db.DatabaseNow(buffer), then=Value(True)),
            default=Value(False),
            output_field=BooleanField(),
        )
        found = rows.filter(pk__in=[job.id for job, _ in some]).annotate(lasts=lasts)
        rows_now = {row["pk"]: row for row in found.values(*_NOW)}
        for job, outcome in some:
            verdicts[job.fence] = _verdict(
                job, outcome, rows_now.get(job.id), recognise
            )
    return verdicts


def _verdict(job: Claimed, outcome: Outcome, row: Any, recognise: bool) -> Settled:
    if row is None and job.removal_sent is not None and job.is_held:
        # By this very settle, of which the answer was lost: nobody else could have it yet.
        return Settled(Verdict.WRITTEN, cancelled=job.removal_sent is Status.CANCELLED)
    if row is None:
        return Settled(Verdict.LOST, None, "its row was removed")
    if row["last_token"] == job.token and recognise:
        # This very write came through before, and only its answer was lost. Somebody else
        # may have claimed the job since, if it sent it back to pending.
        return Settled(Verdict.WRITTEN, cancelled=_cancelled(job, outcome, row))
    if row["claims"] != job.claims:
        return Settled(
            Verdict.LOST, row["worker"], "another worker has claimed it since"
        )
    if row["status"] != Status.RUNNING or row["processing_token"] != job.token:
        return Settled(
            Verdict.LOST, row["worker"], f"it was given back and is {row['status']}"
        )
    if row["lasts"]:
        return Settled(Verdict.BUSY)
    return Settled(
        Verdict.LOST, row["worker"], "its lease ended before the outcome was written"
    )


def _cancelled(job: Claimed, outcome: Outcome, row: Any) -> bool:
    """Whether that write ended the job as cancelled, and not somebody since then."""
    if row["status"] != Status.CANCELLED or row["claims"] != job.claims:
        return False
    # Only a cancel that was asked for while the job ran leaves its time behind.
    return isinstance(outcome, Cancelled) or row["cancel_requested_at"] is not None
