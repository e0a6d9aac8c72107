"""What a worker holds of a job: the columns that a run needs, light to make and to pass on."""

import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from django_leasequeue import clock, db
from django_leasequeue.fields import read_json
from django_leasequeue.states import Status


def new_token() -> UUID:
    """Return a token for one claim, as a UUID of version 7: those made later sort later.

    So that their index is written at its end; elsewhere each would split some page of it.
    """
    random = int.from_bytes(os.urandom(10))
    value = (time.time_ns() // 1_000_000) << 80 | random
    # Its version and variant, among 74 bits by chance.
    value = value & ~(0xF << 76) | 7 << 76
    return UUID(int=value & ~(3 << 62) | 2 << 62)


@dataclass(slots=True, eq=False)
class Claimed:
    """A job as its claim returned it.

    Durations are seconds; instants named `…_at` without a zone are readings of
    `clock.now()`, which only mean something inside this machine's uptime.
    """

    id: int
    queue: str
    task: str
    # JSON texts, parsed where they are used, so that a broken one fails only this job.
    args: str
    kwargs: str
    meta: str
    errors_text: str
    attempts: int
    max_attempts: int
    # Workers lost while they ran it, and those of them that ran nothing else.
    recoveries: int
    lost_alone: int
    claims: int
    round: int
    concurrency_key: str | None
    worker: str
    token: UUID
    claimed_at: datetime  # the database's clock, UTC
    lease: float
    buffer: float
    # When the claim, later the last acknowledged renewal, was sent: the lease ends at the
    # earliest `lease` seconds after it.
    renewed_at: float = field(default_factory=clock.now)
    # When the claim's answer came: at `claimed_at` at the earliest, whatever it waited for.
    received_at: float = field(default_factory=clock.now)
    # The status for which a settle was sent that removes the row, perhaps done unheard.
    removal_sent: Status | None = None
    # Whether a step was sent to be recorded in this claim.
    has_steps: bool = False

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The entries of earlier errors, the newest last."""
        return [] if self.errors_text == "[]" else read_json(self.errors_text)

    @property
    def fence(self) -> tuple[int, int]:
        """(job id, number of its claim): rises with every claim of the job."""
        return self.id, self.claims

    @property
    def is_held(self) -> bool:
        """Whether a write would still be accepted, as far as this process knows."""
        return clock.now() < self.renewed_at + self.lease - self.buffer

    def database_time(self) -> datetime:
        """Return the database's present time, reckoned from the claim without a query.

        It is late by the time that the claim's answer took, never ahead: what is stored with
        it comes before whatever the database stamps afterwards.
        """
        elapsed = clock.now() - self.received_at
        return (self.claimed_at + timedelta(seconds=elapsed)).astimezone(UTC)


def held(rows: QuerySet[Any], job: Claimed) -> QuerySet[Any]:
    """Return the job's row as long as it is this claim's and more than the buffer is left."""
    return db.by_key(
        rows,
        [job.id],
        processing_token=job.token,
        status=Status.RUNNING,
        processing_until__gt=db.DatabaseNow(job.buffer),
    )
