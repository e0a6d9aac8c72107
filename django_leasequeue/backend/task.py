"""A django.tasks.Task with the options of this queue."""

# ruff: noqa: RUF009  (a dataclass field that is made by a function)

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

from django.tasks import Task

from django_leasequeue import registry
from django_leasequeue.frontdoor import FrontDoor
from django_leasequeue.task_options import TaskOptions

# How jobs are run. A function has one set of them: a job's row names the function alone.
OF_RUNS = (
    "max_recoveries",
    "backoff",
    "timeout",
    "on_timeout",
    "atomic",
    "retention",
    "aliases",
    "schedule",
    "retry_on",
    "discard_on",
    "on_success",
    "on_failure",
    "on_retry",
    "redact",
)
# What a job is given when it is made, and using() may change.
OF_JOBS = ("max_attempts", "dedup", "group", "after_group", "meta")
# What OPTIONS of a backend may say for all of its tasks.
FOR_ALL = frozenset({"max_attempts", *OF_RUNS} - {"aliases", "schedule"})


def _option() -> Any:
    """None: not given here. Tasks that differ in it alone are equal, as their rows tell."""
    return field(default=None, compare=False, repr=False)


# With slots a cached property would have no place.
@dataclass(frozen=True, kw_only=True)
class LeaseTask(Task):  # type: ignore[type-arg]
    """What `@django.tasks.task` makes for a LeaseQueueBackend.

    From Django 6.1 on, `@task(max_attempts=5, timeout=30)` takes these options as
    `django_leasequeue.task` does; those of jobs, see OF_JOBS, may be given to using()
    too. On 6.0 the others are those in OPTIONS of the task's backend.
    """

    max_attempts: int | None = _option()
    dedup: Any = _option()
    group: str | None = _option()
    after_group: str | None = _option()
    meta: dict[str, Any] | None = _option()
    max_recoveries: int | None = _option()
    backoff: Any = _option()
    timeout: Any = _option()
    on_timeout: str | None = _option()
    atomic: bool | None = _option()
    retention: Any = _option()
    aliases: Any = _option()
    schedule: Any = _option()
    retry_on: Any = _option()
    discard_on: Any = _option()
    on_success: Any = _option()
    on_failure: Any = _option()
    on_retry: Any = _option()
    redact: Any = _option()

    def using(
        self,
        *,
        dedup: Any = None,
        group: str | None = None,
        after_group: str | None = None,
        max_attempts: int | None = None,
        meta: dict[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """See django.tasks.Task.using(). Options that are None stay as they are."""
        given = {
            "dedup": dedup,
            "group": group,
            "after_group": after_group,
            "max_attempts": max_attempts,
            "meta": meta,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        changed: Any = super().using(**options)
        return replace(changed, **changes) if changes else changed

    @cached_property
    def options(self) -> TaskOptions:
        """What makes it a task for `Job.objects.dispatch` as well.

        Raises TypeError if using() was given what goes to dispatch() itself there.
        """
        for name in ("run_after", "group", "after_group", "meta"):
            if getattr(self, name) is not None:
                instead = "run_at" if name == "run_after" else name
                raise TypeError(
                    f"{name} of using() is for enqueue(). Pass {instead}= to dispatch()."
                )
        known = registry.get(self.module_path)
        return options_of(self, getattr(self.get_backend(), "defaults", {}), known.door)


def options_of(
    task: "Task[..., Any]", defaults: dict[str, Any], door: FrontDoor | None
) -> TaskOptions:
    """Return the options of a task for the registry; those not given are `defaults`.

    Raises TypeError or ValueError for an option that can't be.
    """
    given: dict[str, Any] = {}
    for name in ("max_attempts", "dedup", *OF_RUNS):
        value = getattr(task, name, None)
        given[name] = defaults.get(name) if value is None else value
    return TaskOptions(
        name=task.module_path,
        func=task.func,
        module=task.func.__module__,
        queue=task.queue_name,
        priority=task.priority,
        takes_context=task.takes_context,
        door=door,
        **{name: value for name, value in given.items() if value is not None},
    )


def difference(task: "Task[..., Any]", known: "Task[..., Any]") -> str | None:
    """Return the option of runs by which two tasks of one function differ, if one does."""
    names = ["takes_context"]
    if isinstance(task, LeaseTask) and isinstance(known, LeaseTask):
        names += OF_RUNS
    for name in names:
        if getattr(task, name) != getattr(known, name):
            return name
    return None


def remade(task: "Task[..., Any]", **values: Any) -> "Task[..., Any]":
    """Return the task with other values, whether its backend allows them now or not."""
    made: Task[..., Any] = object.__new__(type(task))
    for one in fields(task):
        value = values[one.name] if one.name in values else getattr(task, one.name)
        object.__setattr__(made, one.name, value)
    return made


def made_of(options: TaskOptions, **values: Any) -> "Task[..., Any]":
    """Return a task that stands for one of this package's own decorator."""
    made = object.__new__(LeaseTask)
    values |= {"func": options.func, "takes_context": options.takes_context}
    for one in fields(LeaseTask):
        object.__setattr__(made, one.name, values.get(one.name, one.default))
    return made
