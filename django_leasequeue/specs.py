"""A job that is to be made: what the caller asked for, checked before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django_leasequeue import payloads, registry
from django_leasequeue.conf import conf
from django_leasequeue.dedup import Dedup, check_text
from django_leasequeue.durations import Duration, seconds
from django_leasequeue.fields import UTCDateTimeField

LONGEST_GROUP = 255


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job for `dispatch_many`; the arguments are those of `Job.objects.dispatch`."""

    task: Any
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    queue: str | None = None
    priority: int | None = None
    delay: Duration | None = None
    run_at: datetime | None = None
    group: str | None = None
    max_attempts: int | None = None
    meta: Mapping[str, Any] | None = None
    dedup: str | Dedup | None = None


@dataclass(slots=True)
class Prepared:
    """A checked spec: `values` by column, `delay` where the time is the database's now."""

    values: dict[str, Any]
    delay: timedelta
    run_at: datetime | None
    dedup: Dedup | None
    # Bytes of its JSON.
    size: int

    @property
    def rules(self) -> Dedup:
        """The dedup id and its rules, of a dispatch that is known to have one."""
        assert self.dedup is not None
        return self.dedup

    @property
    def key(self) -> tuple[str, str] | None:
        """(queue, dedup id), of which one job may hold each; None without an id."""
        return None if self.dedup is None else (self.values["queue"], self.dedup.id)


def prepare(spec: JobSpec) -> Prepared:
    """Check a spec against its task and every database.

    Returns what is to be stored. Raises TypeError or ValueError naming what is wrong,
    UnknownTask or UndiscoverableTask.
    """
    if not isinstance(spec, JobSpec):
        raise TypeError(
            f"{type(spec).__name__} is no JobSpec: make one by task.spec(...)."
        )
    task = registry.resolve(spec.task)
    registry.check_discoverable(task)
    args, kwargs = _arguments(spec)
    task.bind(args, kwargs)
    most = conf.max_argument_bytes
    texts = {
        "args": payloads.dump(args, what="args", max_bytes=most, names=task.positional),
        "kwargs": payloads.dump(kwargs, what="kwargs", max_bytes=most),
        "meta": payloads.dump(_meta(spec), what="meta", max_bytes=most),
    }
    queue = check_text(
        "queue",
        task.queue if spec.queue is None else spec.queue,
        registry.LONGEST_QUEUE,
    )
    dedup = registry.as_dedup(spec.dedup) or task.dedup_for(args, kwargs)
    values = {
        "task": task.name,
        "queue": queue,
        # As a worker will see them.
        **{column: payloads.load(text) for column, text in texts.items()},
        "priority": registry.check_priority(
            task.priority if spec.priority is None else spec.priority
        ),
        "max_attempts": registry.check_count(
            "max_attempts",
            next(
                limit
                for limit in (
                    spec.max_attempts,
                    task.max_attempts,
                    conf.max_attempts(queue),
                )
                if limit is not None
            ),
            1,
        ),
        "group": None
        if spec.group is None
        else check_text("group", spec.group, LONGEST_GROUP),
    }
    delay, run_at = _due(spec)
    return Prepared(values, delay, run_at, dedup, sum(map(len, texts.values())))


def _arguments(spec: JobSpec) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(spec.args, (str, bytes)) or not isinstance(spec.args, Sequence):
        raise TypeError(
            f"args must be a list or tuple, not {type(spec.args).__name__}."
        )
    kwargs = {} if spec.kwargs is None else spec.kwargs
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be a dict, not {type(kwargs).__name__}.")
    return list(spec.args), dict(kwargs)


def _meta(spec: JobSpec) -> dict[str, Any]:
    meta = {} if spec.meta is None else spec.meta
    if not isinstance(meta, Mapping):
        raise TypeError(f"meta must be a dict, not {type(meta).__name__}.")
    return dict(meta)


def _due(spec: JobSpec) -> tuple[timedelta, datetime | None]:
    if spec.run_at is not None and spec.delay is not None:
        raise ValueError("Pass delay or run_at, not both.")
    if spec.run_at is not None:
        if not isinstance(spec.run_at, datetime):
            raise TypeError(
                f"run_at must be a datetime, not {type(spec.run_at).__name__}."
            )
        try:
            return timedelta(0), UTCDateTimeField().to_python(spec.run_at)
        except OverflowError:
            raise ValueError(f"run_at {spec.run_at} does not exist in UTC.") from None
    delay = 0 if spec.delay is None else seconds(spec.delay, what="delay")
    return timedelta(seconds=delay), None
