"""Options by their names and types, for type checkers: of @task, and of a dispatch.

Nothing is checked by these at run time; `task_options.TaskOptions` and `specs.JobSpec` do that.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from django_leasequeue.concurrency import Concurrency
from django_leasequeue.dedup import Dedup
from django_leasequeue.durations import Duration
from django_leasequeue.hooks import Callback
from django_leasequeue.recurrence import Recurrence
from django_leasequeue.task_options import HasOptions

if TYPE_CHECKING:
    # Of Django 6.0 and newer. A task of its decorator, whatever class the backend makes of it.
    from django.tasks import Task as DjangoTask

#: What a job can be made of: a task, of either decorator, or the registered name of one.
TaskLike: TypeAlias = "HasOptions | DjangoTask[..., Any] | str"

Exceptions = type[BaseException] | Sequence[type[BaseException]]


class RunKeywords(TypedDict, total=False):
    """How the jobs of a task are run: what both decorators take."""

    max_attempts: int | None
    max_recoveries: int | None
    backoff: Callable[[int], Any] | None
    timeout: Duration | None
    on_timeout: Literal["retry", "fail"]
    atomic: bool
    dedup: str | Dedup | Callable[..., str | Dedup | None] | None
    schedule: Recurrence | Sequence[Recurrence] | None
    retention: Any
    aliases: str | Sequence[str]
    retry_on: Exceptions
    discard_on: Exceptions
    on_success: Callback | None
    on_failure: Callback | None
    on_retry: Callback | None
    redact: str | Sequence[str] | Callable[[str, Any], Any] | None


class TaskKeywords(RunKeywords, total=False):
    """What @task takes beside `takes_context`, which changes the task's own type."""

    name: str | None
    queue: str
    priority: int
    concurrency: str | Concurrency | None


class DjangoKeywords(RunKeywords, total=False):
    """What @django.tasks.task takes for a task of the backend, beside `takes_context`."""

    queue_name: str
    priority: int
    backend: str
    group: str | None
    after_group: str | None
    meta: Mapping[str, Any] | None


class DispatchKeywords(TypedDict, total=False):
    """What a dispatch takes beside the task and its arguments."""

    queue: str | None
    priority: int | None
    delay: Duration | None
    run_at: datetime | None
    group: str | None
    max_attempts: int | None
    meta: Mapping[str, Any] | None
    dedup: str | Dedup | None
    after_group: str | None
    concurrency: str | Concurrency | None


class UsingKeywords(DispatchKeywords, total=False):
    """What using() of a task takes."""

    database: str | None
