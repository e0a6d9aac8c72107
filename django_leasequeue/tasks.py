"""The decorator that makes a function a task, and the doors on the task itself."""

from collections.abc import Callable, Set
from difflib import get_close_matches
from typing import Any, Generic, ParamSpec, TypeVar, overload

from asgiref.sync import sync_to_async

from django_leasequeue import registry
from django_leasequeue.registry import TaskOptions
from django_leasequeue.specs import JobSpec

_TASK_OPTIONS = TaskOptions.__dataclass_fields__.keys() - {"name", "func", "module"}
_DISPATCH_OPTIONS = set(JobSpec._fields) - {"task", "args", "kwargs"}
# Two ways to say when.
_TIME = frozenset({"delay", "run_at"})

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function that can also be dispatched. Calling it runs the plain function, here and now."""

    def __init__(self, options: TaskOptions):
        self.options = options
        self.__name__ = options.func.__name__
        self.__qualname__ = options.func.__qualname__
        self.__module__ = options.func.__module__
        self.__doc__ = options.func.__doc__
        self.__wrapped__ = options.func

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.options.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @property
    def name(self) -> str:
        """The registered name, which is what a job's row holds."""
        return self.options.name

    def using(self, **options: Any) -> "Door[P]":
        """Return a door whose dispatches take these options: see `Job.objects.dispatch`.

        Also `database`: the alias to store the job in. Its own `using()` adds further ones.
        Raises TypeError for an option that does not exist.
        """
        return Door(self, **options)

    def dispatch(self, *args: P.args, **kwargs: P.kwargs):
        """Store a job with these arguments; see `Job.objects.dispatch`."""
        return Door[P](self).dispatch(*args, **kwargs)

    async def adispatch(self, *args: P.args, **kwargs: P.kwargs):
        """See dispatch()."""
        return await Door[P](self).adispatch(*args, **kwargs)

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """Return a JobSpec with these arguments, for `dispatch_many`."""
        return JobSpec(self, args, kwargs)


class Door(Generic[P]):
    """A task with options for its next dispatches."""

    def __init__(
        self, task: Task[P, Any], /, *, database: str | None = None, **options: Any
    ):
        self._task, self._database, self._options = task, database, options
        _check(f"{task.name} has no dispatch option", options, _DISPATCH_OPTIONS)

    def using(self, *, database: str | None = None, **options: Any) -> "Door[P]":
        """Return a door with these options besides, which count where both have one.

        A `delay` takes the place of a `run_at`, and the other way round.
        """
        time = _TIME if _TIME.intersection(options) else frozenset[str]()
        kept = {key: self._options[key] for key in self._options.keys() - time}
        return Door(
            self._task, database=database or self._database, **{**kept, **options}
        )

    def dispatch(self, *args: P.args, **kwargs: P.kwargs):
        """Store a job with these arguments; see `Job.objects.dispatch`."""
        # Here, since a task may be defined before the models can be imported.
        from django_leasequeue.models import Job

        jobs = Job.objects.using(self._database) if self._database else Job.objects
        return jobs.dispatch(self._task, args, kwargs, **self._options)

    async def adispatch(self, *args: P.args, **kwargs: P.kwargs):
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
def task(**options: Any) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(function=None, /, *, name=None, **options):
    """Make a function a task: `@task`, or `@task(queue="mail", max_attempts=5)`.

    `name`: what a job's row holds, the function's dotted path unless given; `aliases`: names
    it had before. `queue`, `priority` (-100 to 100, larger first), `max_attempts` (runs in
    all), `max_recoveries` (lost workers), `backoff` (see `backoff`): defaults of its jobs.
    `atomic`: the task's writes and its success commit together. `takes_context`: the first
    parameter is the run's context. `dedup`: an id or Dedup, or a callable of the arguments
    that returns one. `timeout`: seconds or a timedelta that a run may take, any time unless
    given; at its end JobTimeout is raised in the task, and if it goes on its process is
    killed. `on_timeout`: "retry" makes that a failed attempt, "fail" the job's end.
    `retention`: how long its finished jobs are kept, as the setting RETENTION.
    `retry_on`: only these exceptions are retried, all unless given; `discard_on`: these fail
    the job at once. `on_success`, `on_failure`, `on_retry`: called once the job has
    succeeded, has failed for good, is to be run again after a failed attempt; each a function
    of one argument, a `hooks.EndedRun`, plain or `async def`, or its dotted path.

    Raises TypeError or ValueError for an option that can't be.
    """

    _check("@task has no option", options, _TASK_OPTIONS)

    def decorate(func: Callable[P, R]) -> Task[P, R]:
        made = TaskOptions(
            name=name or f"{func.__module__}.{func.__qualname__}",
            func=func,
            module=func.__module__,
            **options,
        )
        registry.register(made)
        return Task(made)

    return decorate if function is None else decorate(function)


def _check(what: str, options: dict[str, Any], known: Set[str]) -> None:
    for option in options.keys() - known:
        close = get_close_matches(option, known, n=1)
        hint = (
            f"Did you mean {close[0]!r}?"
            if close
            else f"There are {', '.join(sorted(known))}."
        )
        raise TypeError(f"{what} {option}. {hint}")
