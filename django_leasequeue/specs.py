"""A job that is to be made: what the caller asked for, checked before anything is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_leasequeue import discovery, origin, payloads, registry
from django_leasequeue.concurrency import Concurrency, as_concurrency, of_queue
from django_leasequeue.conf import conf
from django_leasequeue.dedup import Dedup, as_dedup, check_queue, check_text
from django_leasequeue.durations import Duration, seconds
from django_leasequeue.fields import UTCDateTimeField
from django_leasequeue.keywords import TaskLike
from django_leasequeue.option_values import check_count, check_priority
from django_leasequeue.task_options import TaskOptions

LONGEST_GROUP = 255
AT_ONCE = timedelta(0)
# The integers that a JSON column keeps on every database: MySQL makes floats of others,
# or refuses them.
_STORED_IN_JSON = range(-(2**63), 2**64)


class JobSpec(NamedTuple):
    """One job for `dispatch_many`; the arguments are those of `Job.objects.dispatch`."""

    task: TaskLike
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
    after_group: str | None = None
    concurrency: str | Concurrency | None = None


# What a dispatch takes beside the arguments.
OPTIONS = frozenset(JobSpec._fields) - {"task", "args", "kwargs"}
_MISPLACED = OPTIONS | {"database"}


@dataclass(slots=True)
class Prepared:
    """A checked spec: `values` by column, `delay` where the time is the database's now."""

    values: dict[str, Any]
    # The JSON of args, kwargs and meta, as long as it is not stored.
    texts: dict[str, str]
    delay: timedelta
    run_at: datetime | None
    dedup: Dedup | None
    # Bytes of its JSON.
    size: int
    # Of a schedule's job, the columns that tell which it is.
    made_by: dict[str, Any] | None = None
    # The group whose jobs have to end first.
    after_group: str | None = None
    # Whether it cancels older ones of its concurrency key that wait.
    supersedes: bool = False
    # By whom or where it is dispatched, as far as that is known.
    dispatched_by: str | None = None

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
    discovery.check_discoverable(task)
    args, kwargs, meta = (
        _arguments(spec.args),
        _named(spec, "kwargs"),
        _named(spec, "meta"),
    )
    _bind(task, args, kwargs)
    most = conf.max_argument_bytes
    texts = {
        "args": payloads.dump(args, what="args", max_bytes=most, names=task.positional),
        "kwargs": _text("kwargs", kwargs, most),
        "meta": _text("meta", meta, most, _STORED_IN_JSON),
    }
    queue, priority, group = task.queue, task.priority, spec.group
    if spec.queue is not None:
        queue = check_queue(spec.queue)
    if spec.priority is not None:
        priority = check_priority(spec.priority)
    if group is not None:
        check_text("group", group, LONGEST_GROUP)
    dedup = as_dedup(spec.dedup)
    if dedup is None and task.dedup is not None:
        dedup = task.dedup_for(args, kwargs)
    concurrency = _concurrency(spec, task, queue, args, kwargs)
    values = {
        "task": task.name,
        "queue": queue,
        # As a worker will see them.
        "args": args and payloads.load(texts["args"]),
        "kwargs": kwargs and payloads.load(texts["kwargs"]),
        "meta": meta and payloads.load(texts["meta"]),
        "priority": priority,
        "max_attempts": _max_attempts(spec, task, queue),
        "group": group,
        "concurrency_key": concurrency and concurrency.key,
        "concurrency_limit": concurrency and concurrency.limit,
    }
    delay, run_at = _due(spec)
    size = len(texts["args"]) + len(texts["kwargs"]) + len(texts["meta"])
    return Prepared(
        values,
        texts,
        delay,
        run_at,
        dedup,
        size,
        after_group=_after_group(spec),
        supersedes=concurrency is not None and concurrency.supersedes,
        dispatched_by=origin.current(),
    )


def _bind(task: TaskOptions, args: list[Any], kwargs: dict[str, Any]) -> None:
    try:
        task.bind(args, kwargs)
    except TypeError as error:
        parameters = task.signature.parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        strays = kwargs.keys() & _MISPLACED - parameters.keys()
        if takes_any or not strays:
            raise
        names = " and ".join(map(repr, sorted(strays)))
        raise TypeError(
            f"{error} As an option of the dispatch, {names} is given to using()."
        ) from None


def _arguments(args: Sequence[Any]) -> list[Any]:
    # The usual classes first: to ask an abstract one takes a while.
    if type(args) not in (tuple, list) and (
        isinstance(args, (str, bytes)) or not isinstance(args, Sequence)
    ):
        raise TypeError(f"args must be a list or tuple, not {type(args).__name__}.")
    return list(args)


def _named(spec: JobSpec, what: str) -> dict[str, Any]:
    given = getattr(spec, what)
    if given is None:
        return {}
    if type(given) is not dict and not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a dict, not {type(given).__name__}.")
    return dict(given)


def _text(
    what: str, given: dict[str, Any], most: int, integers: range | None = None
) -> str:
    if not given:
        return "{}"
    return payloads.dump(given, what=what, max_bytes=most, integers=integers)


def _max_attempts(spec: JobSpec, task: TaskOptions, queue: str) -> int:
    if spec.max_attempts is not None:
        check_count("max_attempts", spec.max_attempts, 1)
        return spec.max_attempts
    return conf.max_attempts(queue) if task.max_attempts is None else task.max_attempts


def _after_group(spec: JobSpec) -> str | None:
    if spec.after_group is None:
        return None
    if spec.after_group == spec.group:
        raise ValueError(
            f"A job of group {spec.group!r} can't wait for that group: it would wait for "
            "itself."
        )
    return check_text("after_group", spec.after_group, LONGEST_GROUP)


def _concurrency(
    spec: JobSpec,
    task: TaskOptions,
    queue: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Concurrency | None:
    """Return the dispatch's own, else the task's, else the queue's."""
    if spec.concurrency is not None:
        return as_concurrency(spec.concurrency)
    if task.concurrency is not None:
        return task.concurrency_for(args, kwargs)
    limit = conf.concurrency(queue)
    return None if limit is None else of_queue(queue, limit)


def _due(spec: JobSpec) -> tuple[timedelta, datetime | None]:
    if spec.run_at is None and spec.delay is None:
        return AT_ONCE, None
    if spec.run_at is not None and spec.delay is not None:
        raise ValueError("Pass delay or run_at, not both.")
    if spec.run_at is not None:
        if not isinstance(spec.run_at, datetime):
            raise TypeError(
                f"run_at must be a datetime, not {type(spec.run_at).__name__}."
            )
        try:
            return AT_ONCE, UTCDateTimeField().to_python(spec.run_at)
        except OverflowError:
            raise ValueError(f"run_at {spec.run_at} does not exist in UTC.") from None
    delay = 0 if spec.delay is None else seconds(spec.delay, what="delay")
    return timedelta(seconds=delay), None
