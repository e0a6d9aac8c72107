"""What was dispatched: the jobs of a block, and the one that a test asks for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from django.db import router
from django.test import TestCase

from django_leasequeue import registry
from django_leasequeue.models import Job
from django_leasequeue.task_options import TaskOptions


class Captured(list[Job]):
    """The jobs that a block has dispatched, oldest first; filled at its end."""


@contextmanager
def capture_jobs(
    *, on_commit: bool = True, using: str | None = None
) -> Iterator[Captured]:
    """Yield a list that has, after the block, the jobs that were dispatched in it.

    In a TestCase nothing is ever committed. So at the end of the block what it gave to
    `transaction.on_commit` is called, as a commit would, and what that dispatches is captured
    too; not with `on_commit=False`. `using`: the jobs' alias.
    """
    alias = using or router.db_for_write(Job)
    jobs, captured = Job.objects.using(alias), Captured()
    before = set(jobs.values_list("pk", flat=True))
    with TestCase.captureOnCommitCallbacks(using=alias, execute=on_commit):
        yield captured
    captured += [job for job in jobs.order_by("pk") if job.pk not in before]


def assert_dispatched(
    task: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    times: int | None = None,
    jobs: Iterable[Job] | None = None,
    using: str | None = None,
    **columns: Any,
) -> Any:
    """Fail unless the task was dispatched; return its newest such job, None for `times=0`.

    `task`: it, or one of its names. `args`, `kwargs`: what it was given, by position or by
    name, defaults filled in; anything unless given. `times`: how often, at least once unless
    given. `jobs`: of these, such as what capture_jobs() yields; of all in the table unless
    given. `columns`: what the job's row has, such as `queue="mail"` or `dedup_id="order:7"`;
    TypeError for one that there is not.
    """
    options = registry.resolve(task)
    _check_columns(columns)
    known = (options.name, *options.aliases)
    if jobs is None:
        jobs = Job.objects.using(using or router.db_for_write(Job)).order_by("pk")
    mine = [job for job in jobs if job.task in known]
    found = [job for job in mine if _fits(job, columns)]
    if args is not None or kwargs is not None:
        options.bind(args or (), kwargs or {})
        wanted = _bound(options, args or (), kwargs or {})
        found = [
            job for job in found if _bound(options, job.args, job.kwargs) == wanted
        ]
    if len(found) != times if times is not None else not found:
        often = "" if times is None else f" {times} times but {len(found)}"
        raise AssertionError(
            f"{options.name} was not dispatched{often}"
            f"{_told(args, kwargs, columns)}. Of its jobs there are:\n"
            + ("\n".join(map(_line, mine)) or "none")
        )
    return found[-1] if found else None


def _check_columns(columns: Mapping[str, Any]) -> None:
    for name in columns:
        if not hasattr(Job, name):
            known = sorted(field.name for field in Job._meta.concrete_fields)
            close = get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"It has {known}."
            raise TypeError(f"A job has no column {name!r}. {hint}")


def _fits(job: Job, columns: Mapping[str, Any]) -> bool:
    return all(getattr(job, name) == value for name, value in columns.items())


def _bound(options: TaskOptions, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """Return the arguments by name; None if the code has changed and they don't fit."""
    try:
        bound = options.signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return {name: _listed(value) for name, value in bound.arguments.items()}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _told(args: Any, kwargs: Any, columns: Mapping[str, Any]) -> str:
    given = {"args": args, "kwargs": kwargs, **columns}
    parts = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    return f" with {', '.join(parts)}" if parts else ""


def _line(job: Job) -> str:
    return (
        f"  job {job.pk}: args={job.args!r}, kwargs={job.kwargs!r}, queue={job.queue!r}, "
        f"dedup_id={job.dedup_id!r}, {job.status}"
    )
