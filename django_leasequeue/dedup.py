"""A dedup id and the rules by which one job holds it."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal

from django_leasequeue.durations import Duration, seconds

MAX_LENGTH = 510


class DispatchOutcome(StrEnum):
    """What a dispatch did, the second half of the Dispatch that it returns."""

    ADDED = "added"
    SKIPPED = "skipped"
    EXTENDED = "extended"
    REPLACED = "replaced"
    RERUN = "rerun"


@dataclass(frozen=True, slots=True)
class Dedup:
    """An id that one job holds at a time; with `ttl` alone for that window and no longer.

    Then, when the window ends, the id is free again even if its job still runs or waits, and
    two jobs of one id exist side by side.

    `id`: 1 to 510 characters, compared exactly.
    `ttl`: seconds or a timedelta, more than 0; the job holds the id for that long from its
    dispatch, by the database's clock.
    `until`: "finished" (default without `ttl`), the job holds the id until it has succeeded,
    failed for good or been cancelled; "removed", as long as its row exists. With `ttl`, until
    both are over.
    `extend`: a dispatch that finds a holder with a window starts the window anew, at the
    length it has.
    `replace`: a dispatch that finds a pending holder puts its own arguments in place of the
    holder's, and leaves its time alone.
    `postpone`: with `replace`, the holder also gets the time of the dispatch that replaces
    it: its `delay` or `run_at`, else now.
    `rerun`: a dispatch that finds a running holder makes it run once more when it ends, with
    the newest arguments if also `replace`.

    Raises ValueError or TypeError for anything else.
    """

    id: str
    ttl: Duration | None = None
    until: Literal["finished", "removed"] | None = None
    extend: bool = False
    replace: bool = False
    postpone: bool = False
    rerun: bool = False

    def __post_init__(self) -> None:
        check_text("dedup id", self.id, MAX_LENGTH)
        if self.window is not None and not self.window:
            raise ValueError(f"ttl must be more than 0, not {self.ttl}.")
        if self.until not in (None, "finished", "removed"):
            raise ValueError(
                f"until must be 'finished' or 'removed', not {self.until!r}."
            )
        if self.extend and self.ttl is None:
            raise ValueError(
                "extend needs a ttl: without one there is no window to extend."
            )
        if self.postpone and not self.replace:
            raise ValueError("postpone goes with replace: it moves what is replaced.")

    @property
    def window(self) -> timedelta | None:
        """How long a dispatch holds the id whatever becomes of its job; None without."""
        if self.ttl is None:
            return None
        return timedelta(seconds=seconds(self.ttl, what="ttl"))

    @property
    def hold(self) -> str:
        """What holds the id besides the window: "finished", "removed", or "" for nothing."""
        if self.until is not None:
            return self.until
        return "" if self.ttl is not None else "finished"


def as_dedup(wanted: str | Dedup | None) -> Dedup | None:
    """Return a dedup id given as text or Dedup as the latter."""
    if wanted is None or isinstance(wanted, Dedup):
        return wanted
    return Dedup(wanted)


# Characters of a queue's name.
LONGEST_QUEUE = 100


def check_queue(name: str) -> str:
    """Return the name of a queue that every door takes and `--queues` can name, or raise.

    As check_text; ValueError also for `*`, a comma, and white space at an end.
    """
    check_text("name of a queue", name, LONGEST_QUEUE)
    if name == "*":
        raise ValueError("'*' is no queue: to a worker it stands for all queues.")
    if "," in name or name != name.strip():
        raise ValueError(
            f"The name of a queue can't be {name!r}: `runjobs --queues` takes names that are "
            "separated by commas, without white space at their ends."
        )
    return name


def check_text(what: str, value: Any, longest: int) -> str:
    """Return `value` if every database can store and compare it as it is.

    Raises TypeError unless it is a str, ValueError if it is empty, longer than `longest`
    characters, or holds a NUL or half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise TypeError(f"The {what} must be a str, not {type(value).__name__}.")
    if not value:
        raise ValueError(f"The {what} must not be empty.")
    if len(value) > longest:
        raise ValueError(
            f"The {what} has {len(value)} characters; at most {longest} are allowed. "
            "A hash of the long part keeps it short."
        )
    if "\x00" in value:
        raise ValueError(
            f"The {what} {value!r} holds a NUL, which PostgreSQL can't store."
        )
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(
            f"The {what} {value!r} holds half of a surrogate pair, not a character."
        )
    return value
