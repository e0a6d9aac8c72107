"""Jobs as django.tasks.TaskResult: rows, and runs whose rows nobody needs to read."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.tasks import Task, TaskResult, TaskResultStatus
from django.tasks.base import TaskError
from django.utils import timezone

from django_leasequeue import payloads, registry
from django_leasequeue.backend.task import made_of, remade
from django_leasequeue.claimed import Claimed
from django_leasequeue.exceptions import JobCancelled
from django_leasequeue.outcomes import Cancelled, Failed, Outcome, Succeeded
from django_leasequeue.payloads.tracebacks import class_name
from django_leasequeue.states import Status

STATUSES = {
    Status.PENDING: TaskResultStatus.READY,
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}
# What only the row knows.
_OF_ROWS = frozenset(
    {"enqueued_at", "started_at", "last_attempted_at", "finished_at", "worker_ids"}
)
# What a claim and its outcome know, in a form that costs something to read.
_OF_RUNS = frozenset({"args", "kwargs", "errors", "_return_value"})

Read = Callable[[], dict[str, Any]]


class JobResult(TaskResult):  # type: ignore[type-arg]
    """A TaskResult that reads some of its fields when one of them is first asked for."""

    # Its fields are slots: asked for one that is empty, Python comes here.
    def __getattr__(self, name: str) -> Any:
        for names, read in self.__dict__.get("_unread", ()):
            if name in names:
                _fill(self, {key: one for key, one in read().items() if key in names})
                return object.__getattribute__(self, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def of_row(job: Any, alias: str) -> JobResult:
    """Return the result of a job; raises UnknownTask if nobody here knows its task."""
    made: JobResult = object.__new__(JobResult)
    _fill(made, {"task": _task_of(job, alias), "id": str(job.pk), "backend": alias})
    _fill(made, {"status": STATUSES[Status(job.status)], **_times(job)})
    _fill(
        made,
        {
            "args": _as(list, job.args),
            "kwargs": _as(dict, job.kwargs),
            "errors": _errors(job.errors, job.pk, job.status == Status.CANCELLED),
            "_return_value": job.result,
        },
    )
    return made


def of_new(job: Any, task: "Task[..., Any]", alias: str) -> JobResult:
    """Return the result of a job that was enqueued just now, with the task that was."""
    result = JobResult(
        task=task,
        id=str(job.pk),
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=_as(list, job.args),
        kwargs=_as(dict, job.kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )
    # The database knows when, and one statement is enough where nobody asks.
    object.__delattr__(result, "enqueued_at")
    result.__dict__["_unread"] = [
        (frozenset({"enqueued_at"}), lambda: {"enqueued_at": local(job.created_at)})
    ]
    return result


def of_run(
    job: Claimed, outcome: Outcome | None, task: "Task[..., Any]", using: str | None
) -> JobResult:
    """Return the result of a job in the hands of a worker; `outcome`: None while it runs."""
    match outcome:
        case None:
            status = TaskResultStatus.RUNNING
        case Succeeded():
            status = TaskResultStatus.SUCCESSFUL
        case _:
            status = TaskResultStatus.FAILED
    made: JobResult = object.__new__(JobResult)
    if task.queue_name != job.queue:
        task = remade(task, queue_name=job.queue)
    _fill(
        made,
        {"task": task, "id": str(job.id), "status": status, "backend": task.backend},
    )
    made.__dict__["_unread"] = [
        (_OF_ROWS, partial(_row_or_claim, job, outcome, using)),
        (_OF_RUNS, partial(_what_the_run_knows, job, outcome)),
    ]
    return made


def local(instant: datetime | None) -> datetime | None:
    """Return an instant as Django's own fields would be read."""
    if instant is None or settings.USE_TZ:
        return instant
    return timezone.make_naive(instant, timezone.get_default_timezone())


def _fill(result: JobResult, values: dict[str, Any]) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _task_of(job: Any, alias: str) -> "Task[..., Any]":
    options = registry.resolve(job.task)
    given = {
        "backend": alias,
        "queue_name": job.queue,
        "priority": job.priority,
        "run_after": None if job.run_at == job.created_at else local(job.run_at),
    }
    known = getattr(options.door, "task", None)
    return made_of(options, **given) if known is None else remade(known, **given)


def _times(job: Any) -> dict[str, Any]:
    return {
        "enqueued_at": local(job.created_at),
        "started_at": local(job.started_at),
        "last_attempted_at": local(job.last_attempted_at),
        "finished_at": local(job.finished_at),
        "worker_ids": _worker_ids(job.worker_ids),
    }


def _worker_ids(text: str) -> list[str]:
    from django_leasequeue.transitions.claim import WORKER_IDS

    names = text.removesuffix("\n").split("\n") if text else []
    # Of a list that was cut, the oldest may be half a name.
    return names[1:] if len(text) >= WORKER_IDS else names


def _errors(entries: Any, pk: int, is_cancelled: bool) -> list[TaskError]:
    told = [
        TaskError(
            exception_class_path=str(entry.get("exception_class", "")),
            traceback=str(entry.get("traceback", "")) or str(entry.get("message", "")),
        )
        for entry in _as(list, entries)
        if isinstance(entry, dict)
    ]
    if is_cancelled:
        path = class_name(JobCancelled)
        told.append(
            TaskError(
                exception_class_path=path,
                traceback=f"{path}: Job {pk} was cancelled.\n",
            )
        )
    return told


def _row_or_claim(
    job: Claimed, outcome: Outcome | None, using: str | None
) -> dict[str, Any]:
    from django_leasequeue.models import Job

    row = Job.objects.using(using).filter(pk=job.id).first()
    if row is not None:
        return _times(row)
    # Removed as it ended.
    claimed_at = local(job.claimed_at)
    return {
        "enqueued_at": None,
        "started_at": claimed_at,
        "last_attempted_at": claimed_at,
        "finished_at": None if outcome is None else local(job.database_time()),
        "worker_ids": [job.worker],
    }


def _what_the_run_knows(job: Claimed, outcome: Outcome | None) -> dict[str, Any]:
    entries, value = list(_as(list, job.errors)), None
    match outcome:
        case Failed(error):
            entries.append(error)
        case Succeeded(str() as text):
            value = payloads.load(text)
    return {
        "args": _read(job.args, list),
        "kwargs": _read(job.kwargs, dict),
        "errors": _errors(entries, job.id, isinstance(outcome, Cancelled)),
        "_return_value": value,
    }


def _read(text: str, kind: type) -> Any:
    try:
        return _as(kind, payloads.load(text))
    except (TypeError, ValueError):
        return kind()


def _as(kind: type, value: Any) -> Any:
    """Return a value that is of this kind; nothing in the place of any other."""
    return value if isinstance(value, kind) else kind()
