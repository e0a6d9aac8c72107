"""Passes of a dispatch, again and again until one decides, for a bounded time.

A pass that loses its insert, is chosen as a deadlock's victim or finds that the owner has
changed meanwhile was rolled back as a whole, and the next one finds the winner.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from django.db import Error, IntegrityError, models, transaction

from django_leasequeue import clock, db
from django_leasequeue.exceptions import DispatchConflict
from django_leasequeue.specs import Prepared

# Seconds that a dispatch may take to be decided. A lost race is decided within milliseconds;
# this bounds a storm of rivals and one that does not commit, below the 30 s that web servers
# give a request by default.
TIME_LIMIT = 20.0

T = TypeVar("T")


class Deadline:
    """When a dispatch has to be decided."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = clock.now() + seconds

    @property
    def left(self) -> float:
        """Seconds, never none at all: each statement may wait a moment."""
        return max(0.05, self._ends - clock.now())

    @property
    def passed(self) -> bool:
        """Whether the time has come to give up."""
        return clock.now() > self._ends


def until_decided(
    one_pass: Callable[[Deadline, bool], T | None],
    rows: models.QuerySet[Any],
    wanted: list[Prepared],
) -> T:
    """Return what `one_pass(deadline, hidden)` decides; it returns None to be called again.

    `hidden`: whether only a locking read can find the job that holds the id. `wanted`: the
    dispatches with an id, of which errors name the first. Raises DispatchConflict after 20 s,
    or where no read of the caller's transaction can find the holder; what the database says
    about that transaction itself is raised as it is, and so is a violation of anything but
    the dedup constraint.
    """
    connection = transaction.get_connection(rows.db)
    deadline = Deadline(TIME_LIMIT)
    hidden = False
    lost = None
    while True:
        # A wait that lasts until the end is followed by one more look.
        is_last = deadline.passed
        try:
            decided = db.rerun(
                partial(one_pass, deadline, hidden),
                using=rows.db,
                seconds=deadline.left,
            )
            if decided is not None:
                return decided
            lost = None
        except IntegrityError as error:
            if not db.is_violation(error, dedup_constraint(rows), rows.model):
                raise
            hidden = _winner_is_hidden(connection, wanted, error, lost is not None)
            lost = error
        except Error as error:
            if db.is_lock_wait(error, connection) or (
                not db.in_transaction(connection)
                and db.is_passing_trouble(error, connection)
            ):
                raise _conflict(
                    wanted,
                    "others were in the way for as long as it may wait, such as a "
                    "transaction that has touched the id's job and does not end",
                ) from error
            raise
        if is_last:
            raise _conflict(
                wanted,
                "other dispatches came first, or its job changed, again and again for "
                f"{deadline.seconds:g} seconds",
            ) from lost


def dedup_constraint(rows: models.QuerySet[Any]) -> models.UniqueConstraint:
    """Return the constraint that lets a dedup id belong to one job."""
    return next(
        constraint
        for constraint in rows.model._meta.constraints
        if getattr(constraint, "fields", None) == ("queue", "dedup_id")
    )


def _winner_is_hidden(
    connection: Any, wanted: list[Prepared], lost: IntegrityError, again: bool
) -> bool:
    findable = db.locking_read_is_fresh(connection)
    if db.reads_are_fresh(connection):
        # MySQL does not tell a level that was set for one transaction alone.
        return again and findable and db.in_transaction(connection)
    if not findable:
        raise _conflict(
            wanted, "a job that this transaction's snapshot can't see holds the id"
        ) from lost
    return True


def _conflict(wanted: list[Prepared], why: str) -> DispatchConflict:
    first = wanted[0]
    others = len({one.key for one in wanted}) - 1
    if others:
        why += f" (that id, or one of the {others} others of its batch)"
    return DispatchConflict(first.rules.id, first.values["queue"], why)
