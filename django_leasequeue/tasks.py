"""The decorator that makes a function a task, and the doors on the task itself."""

from collections.abc import Callable, Set
from difflib import get_close_matches
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from asgiref.sync import sync_to_async

from django_leasequeue import registry
from django_leasequeue.keywords import TaskKeywords, UsingKeywords
from django_leasequeue.specs import OPTIONS, JobSpec
from django_leasequeue.task_options import TaskOptions

if TYPE_CHECKING:
    from django_leasequeue.managers import Dispatch

_TASK_OPTIONS = TaskOptions.__dataclass_fields__.keys() - {
    "name",
    "func",
    "module",
    "door",
}
# Two ways to say when.
_TIME = frozenset({"delay", "run_at"})

# What others call it.
ELSEWHERE = dict.fromkeys(
    ("adelay", "aenqueue", "delay", "delay_on_commit", "enqueue", "send"),
    "Its dispatch() stores a job with these arguments.",
) | dict.fromkeys(
    ("apply_async", "configure", "enqueue_at", "enqueue_in", "schedule"),
    "using(delay=60, queue='mail').dispatch(...) stores a job with options.",
)
_OPTIONS_ELSEWHERE = {
    "autoretry_for": "retry_on",
    "bind": "takes_context",
    "countdown": "delay",
    "eta": "run_at",
    "max_retries": "max_attempts",  # One more: it counts the first run, too.
    "retries": "max_attempts",
    "time_limit": "timeout",
}

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class Task(Generic[P, R]):
    """A function that can also be dispatched. Calling it runs the plain function, here and now.

    `P`: the parameters that a dispatch takes; `R`: what a call returns, of an `async def` the
    coroutine.
    """

    def __init__(self, options: TaskOptions) -> None:
        self.options = options
        self.__name__ = options.func.__name__
        self.__qualname__ = options.func.__qualname__
        self.__module__ = options.func.__module__
        self.__doc__ = options.func.__doc__
        self.__wrapped__ = options.func

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.options.func(*args, **kwargs)

    if not TYPE_CHECKING:  # or any name would be right

        def __getattr__(self, name: str) -> None:
            hint = f" {ELSEWHERE[name]}" if name in ELSEWHERE else ""
            raise AttributeError(f"A task has no attribute {name!r}.{hint}")

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @property
    def name(self) -> str:
        """The registered name, which is what a job's row holds."""
        return self.options.name

    def using(self, **options: Unpack[UsingKeywords]) -> "Door[P]":
        """Return a door whose dispatches take these options: see `Job.objects.dispatch`.

        Also `database`: the alias to store the job in. Its own `using()` adds further ones.
        Raises TypeError for an option that does not exist.
        """
        return Door(self, **options)

    def dispatch(self, *args: P.args, **kwargs: P.kwargs) -> "Dispatch":
        """Store a job with these arguments; see `Job.objects.dispatch`."""
        return Door[P](self).dispatch(*args, **kwargs)

    async def adispatch(self, *args: P.args, **kwargs: P.kwargs) -> "Dispatch":
        """See dispatch()."""
        return await Door[P](self).adispatch(*args, **kwargs)

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """Return a JobSpec with these arguments, for `dispatch_many`."""
        return JobSpec(self, args, kwargs)


class ContextTask(Task[P, R], Generic[C, P, R]):
    """A task that takes_context: a call passes it, the context first; a dispatch does not."""

    def __call__(  # type: ignore[override]
        self, context: C, /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return self.options.func(context, *args, **kwargs)


class Door(Generic[P]):
    """A task with options for its next dispatches."""

    def __init__(self, task: Task[P, Any], /, **options: Unpack[UsingKeywords]) -> None:
        given: dict[str, Any] = {**options}
        self._database: str | None = given.pop("database", None)
        self._task, self._options = task, given
        _check(f"{task.name} has no dispatch option", given, OPTIONS)

    def using(self, **options: Unpack[UsingKeywords]) -> "Door[P]":
        """Return a door with these options besides, which count where both have one.

        A `delay` takes the place of a `run_at`, and the other way round.
        """
        time = _TIME if _TIME.intersection(options) else frozenset[str]()
        kept = {key: self._options[key] for key in self._options.keys() - time}
        database = options.get("database") or self._database
        merged: Any = {**kept, **options, "database": database}
        return Door(self._task, **merged)

    def dispatch(self, *args: P.args, **kwargs: P.kwargs) -> "Dispatch":
        """Store a job with these arguments; see `Job.objects.dispatch`."""
        # Here, since a task may be defined before the models can be imported.
        from django_leasequeue.models import Job

        jobs = Job.objects.using(self._database) if self._database else Job.objects
        return jobs.dispatch(self._task, args, kwargs, **self._options)

    async def adispatch(self, *args: P.args, **kwargs: P.kwargs) -> "Dispatch":
        """See dispatch()."""
        return await sync_to_async(self.dispatch)(*args, **kwargs)

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """Return a JobSpec with these arguments and options, for `dispatch_many`."""
        if self._database is not None:
            raise TypeError(
                "A spec has no database: pass it to Job.objects.using(alias)."
            )
        return JobSpec(self._task, args, kwargs, **self._options)


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    *, takes_context: Literal[True], **options: Unpack[TaskKeywords]
) -> Callable[[Callable[Concatenate[C, P], R]], ContextTask[C, P, R]]: ...
@overload
def task(
    *, takes_context: Literal[False] = False, **options: Unpack[TaskKeywords]
) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Make a function a task: `@task`, or `@task(queue="mail", max_attempts=5)`.

    `name`: what a job's row holds, the function's dotted path unless given; `aliases`: names
    it had before. `queue`, `priority` (-100 to 100, larger first), `max_attempts` (runs in
    all), `max_recoveries` (lost workers), `backoff` (see `backoff`): defaults of its jobs.
    `atomic`: the task's writes and its success commit together. `takes_context`: the first
    parameter is the run's context. `dedup`: an id or Dedup, or a callable of the arguments
    that returns one. `concurrency`: a key such as "tenant:{tenant_id}", of which one job
    runs at a time, or a Concurrency for more. `timeout`: seconds or a timedelta that a run
    may take, any time unless given; at its end JobTimeout is raised in the task, and if it
    goes on its process is killed. `on_timeout`: "retry" makes that a failed attempt, "fail"
    the job's end.
    `retention`: how long its finished jobs are kept, as the setting RETENTION.
    `retry_on`: only these exceptions are retried, all unless given; `discard_on`: these fail
    the job at once. `on_success`, `on_failure`, `on_retry`: called once the job has
    succeeded, has failed for good, is to be run again after a failed attempt; each a function
    of one argument, a `hooks.EndedRun`, plain or `async def`, or its dotted path.

    `redact`: names of parameters, or a function of a name and a value that returns what to
    show: what people may not see of its jobs, see docs/operations.md.
    `schedule`: when it runs by itself, `cron(...)` or `every(...)`, or a list of such.

    Raises TypeError or ValueError for an option that can't be.
    """

    if function is not None and not callable(function):
        raise TypeError(
            f"@task takes its options by name, such as @task(queue='mail'), not {function!r}."
        )
    _check("@task has no option", options, _TASK_OPTIONS)

    def decorate(func: Callable[..., Any]) -> Task[..., Any]:
        made = TaskOptions(
            name=name or f"{func.__module__}.{func.__qualname__}",
            func=func,
            module=func.__module__,
            **options,
        )
        registry.register(made)
        return ContextTask(made) if made.takes_context else Task(made)

    return decorate if function is None else decorate(function)


def _check(what: str, options: dict[str, Any], known: Set[str]) -> None:
    for option in options.keys() - known:
        meant = _OPTIONS_ELSEWHERE.get(option)
        close = [meant] if meant in known else get_close_matches(option, known, n=1)
        hint = (
            f"Did you mean {close[0]!r}?"
            if close
            else f"There are {', '.join(sorted(known))}."
        )
        if meant in close and meant == "max_attempts":
            hint += " It counts the first run, too."
        raise TypeError(f"{what} {option}. {hint}")
