"""`cron(...)` and `every(...)`: when a task is to be run by itself, and with what."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings

from django_leasequeue import payloads
from django_leasequeue.concurrency import Concurrency, as_concurrency
from django_leasequeue.dedup import Dedup, check_text
from django_leasequeue.recurrence.due import LATEST, MISSED
from django_leasequeue.recurrence.ticks import CRON, EVERY, make_ticks

LONGEST_SCHEDULE = 255
LONGEST_EXPRESSION = 255
SKIP, ALLOW = "skip", "allow"
OVERLAP = (SKIP, ALLOW)
# Jobs that `missed="all"` makes at the most, unless told otherwise.
CAP, LARGEST_CAP = 100, 1000
# What the table's columns hold.
_LARGEST = 2_147_483_647
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """What `cron` and `every` return. The options are those of `cron`."""

    kind: str
    text: str
    # IANA name; the project's TIME_ZONE unless given.
    tz: str | None = None
    name: str | None = None
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = field(default_factory=dict, hash=False)
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    group: str | None = None
    meta: dict[str, Any] | None = field(default=None, hash=False)
    dedup: str | Dedup | None = None
    concurrency: str | Concurrency | None = None
    missed: str = LATEST
    cap: int = CAP
    overlap: str = SKIP
    starts: datetime | None = None
    ends: datetime | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_text("name of a schedule", self.name, LONGEST_SCHEDULE)
        check_text("expression", self.text, LONGEST_EXPRESSION)
        _choice("missed", self.missed, MISSED)
        _choice("overlap", self.overlap, OVERLAP)
        _whole("cap", self.cap, LARGEST_CAP)
        if self.limit is not None:
            _whole("limit", self.limit, _LARGEST)
        if not isinstance(self.args, list | tuple):
            raise TypeError(
                f"args must be a list or tuple, not {type(self.args).__name__}."
            )
        object.__setattr__(self, "args", tuple(self.args))
        for what in ("kwargs", "meta"):
            given = getattr(self, what)
            if given is not None and not isinstance(given, dict):
                raise TypeError(f"{what} must be a dict, not {type(given).__name__}.")
        for what in ("starts", "ends"):
            _check_instant(what, getattr(self, what))
        if self.starts and self.ends and self.starts >= self.ends:
            raise ValueError("starts must be before ends.")
        # Raises for what can't be read, such as callables: what is worked out anew for each
        # tick is for a receiver of before_schedule.
        for what in ("args", "kwargs", "meta"):
            value = getattr(self, what)
            given = list(value) if what == "args" else value or {}
            payloads.dump(given, what=what, max_bytes=_LARGEST)
        _dedup_as_json(self.dedup)
        object.__setattr__(self, "concurrency", as_concurrency(self.concurrency))
        make_ticks(self.kind, self.text, self.zone, _EPOCH, self.starts, self.ends)

    @property
    def zone(self) -> str:
        """The time zone by whose clock it is."""
        if self.tz is not None:
            return self.tz
        return settings.TIME_ZONE if self.kind == CRON else "UTC"

    def called(self, name: str) -> "Recurrence":
        """Return the same with a name, if it has none."""
        return self if self.name else replace(self, name=name)

    @property
    def options(self) -> dict[str, Any]:
        """The options of its dispatches, as JSON."""
        given = {
            "queue": self.queue,
            "priority": self.priority,
            "max_attempts": self.max_attempts,
            "group": self.group,
            "meta": self.meta,
            "dedup": _dedup_as_json(self.dedup),
            "concurrency": _concurrency_as_json(self.concurrency),
        }
        return {key: value for key, value in given.items() if value is not None}

    def columns(self, task: str) -> dict[str, Any]:
        """Return what of a schedule's row the code decides."""
        return {
            "task": task,
            "kind": self.kind,
            "expression": self.text,
            "tz": self.zone,
            # As they will be read.
            "args": json.loads(json.dumps(list(self.args))),
            "kwargs": json.loads(json.dumps(self.kwargs)),
            "options": self.options,
            "missed": self.missed,
            "cap": self.cap,
            "overlap": self.overlap,
            "starts_at": self.starts and self.starts.astimezone(UTC),
            "ends_at": self.ends and self.ends.astimezone(UTC),
            "limit": self.limit,
        }


def cron(text: str, tz: str | None = None, **options: Any) -> Recurrence:
    """By a cron line: `cron("30 2 * * MON-FRI", tz="Europe/Paris")`.

    `text`: minute, hour, day of month, month, day of week, as in crontab(5), with names,
    `L`, `LW` and `MON#2`; six fields begin with the second. `tz`: the IANA name of the zone
    whose clock counts; the project's TIME_ZONE unless given.

    `name`: of the schedule, the task's own unless given. `args`, `kwargs`: JSON, the same for
    each tick; see signals.before_schedule for others. `queue`, `priority`, `max_attempts`,
    `group`, `meta`, `dedup`, `concurrency`: see `Job.objects.dispatch`.
    `missed`: of ticks that passed while no worker was there, "latest" runs the last (default),
    "all" the last `cap` (100) of them, "none" none that is over a minute late. `overlap`:
    "skip" (default) makes no job while the last one has not finished, "allow" does. `starts`,
    `ends`: aware datetimes; ticks lie from the one on and before the other. `limit`: jobs in all.

    Raises TypeError or ValueError for what can't be.
    """
    if not isinstance(text, str):
        raise TypeError(f"A cron line must be a str, not {type(text).__name__}.")
    return Recurrence(kind=CRON, text=" ".join(text.split()), tz=tz, **options)


def every(
    *,
    weeks: float = 0,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    **options: Any,
) -> Recurrence:
    """By an interval: `every(minutes=10)`; the options are those of `cron`, without `tz`.

    Counted from `starts`, or else from when the schedule was first stored: tick n is n times
    the interval after that, however late any was. Whole seconds, at least one.
    """
    try:
        step = timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds
        )
    except OverflowError:
        raise ValueError("every() takes a century at the most.") from None
    if step < timedelta(seconds=1) or step.microseconds:
        raise ValueError(
            f"every() takes whole seconds, at least one, not {step.total_seconds():g} s."
        )
    if "tz" in options:
        raise TypeError("every() has no tz: an interval is the same in each zone.")
    return Recurrence(kind=EVERY, text=str(step // timedelta(seconds=1)), **options)


def _dedup_as_json(given: str | Dedup | None) -> Any:
    if given is None:
        return None
    rules = given if isinstance(given, Dedup) else Dedup(given)
    window = rules.window
    found = {
        "id": rules.id,
        "ttl": window and window.total_seconds(),
        "until": rules.until,
        **{
            flag: getattr(rules, flag)
            for flag in ("extend", "replace", "postpone", "rerun")
        },
    }
    return {key: value for key, value in found.items() if value}


def _concurrency_as_json(given: str | Concurrency | None) -> Any:
    wanted = as_concurrency(given)
    return wanted and asdict(wanted)


def _choice(what: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(
            f"{what} must be one of {', '.join(map(repr, known))}, not {value!r}."
        )


def _whole(what: str, value: Any, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}.")
    if not 1 <= value <= largest:
        raise ValueError(f"{what} must be 1 to {largest:,}, not {value}.")


def _check_instant(what: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, datetime):
        raise TypeError(f"{what} must be a datetime, not {type(value).__name__}.")
    if value.utcoffset() is None:
        raise ValueError(f"{what} must be an aware datetime, and {value!r} is naive.")
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{what} {value} does not exist in UTC.") from None
