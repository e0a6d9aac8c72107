"""The tasks this process knows, by name, and what may be asked of them."""

import contextlib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from types import ModuleType
from typing import Any, Protocol

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from django_leasequeue.backoff import problem_with
from django_leasequeue.concurrency import (
    Concurrency,
    as_concurrency,
    check_format,
    filled_in,
)
from django_leasequeue.conf import conf
from django_leasequeue.dedup import Dedup, check_queue, check_text
from django_leasequeue.durations import Duration, seconds
from django_leasequeue.exceptions import UndiscoverableTask, UnknownTask
from django_leasequeue.frontdoor import FrontDoor
from django_leasequeue.hooks import Callback, check_callback
from django_leasequeue.recurrence import Recurrence
from django_leasequeue.redaction import CLOSED, Redact, Redaction, as_redact
from django_leasequeue.retention import Rules
from django_leasequeue.retention import read as read_retention

LONGEST_NAME = 255
# Django's own bounds for a task's priority (django.tasks.base).
LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100
# What becomes of a run that took longer than its timeout: a failed attempt like any other,
# or the end of the job.
ON_TIMEOUT = ("retry", "fail")
# Options that are called once an outcome is stored: see hooks.
CALLBACKS = ("on_success", "on_failure", "on_retry")


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """A registered function and its options; None means the queue's or the global setting."""

    name: str
    func: Callable[..., Any]
    queue: str = "default"
    priority: int = 0
    max_attempts: int | None = None
    max_recoveries: int | None = None
    backoff: Callable[[int], Any] | None = None
    # Seconds; may be given as a timedelta.
    timeout: float | None = None
    on_timeout: str = "retry"
    atomic: bool = False
    takes_context: bool = False
    dedup: str | Dedup | Callable[..., str | Dedup | None] | None = None
    # A key as text has the limit 1; a format over the arguments.
    concurrency: str | Concurrency | None = None
    # One or several; each has a name in the end.
    schedule: Any = ()
    # As the setting RETENTION; the statuses that are not named are the queue's affair.
    retention: Any = field(default_factory=dict, hash=False)
    aliases: tuple[str, ...] = ()
    retry_on: tuple[type[BaseException], ...] = ()
    discard_on: tuple[type[BaseException], ...] = ()
    on_success: Callback | None = None
    on_failure: Callback | None = None
    on_retry: Callback | None = None
    # Names of parameters, or a function of a name and a value: what people may not see.
    redact: Redact | None = None
    # The module that has to be imported for the task to be registered.
    module: str = field(default="")
    # Of a task that another decorator has made; None: this package's own.
    door: FrontDoor | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option in ("retry_on", "discard_on", "aliases"):
            # A list, or one alone, does as well; isinstance() wants a tuple.
            given = getattr(self, option)
            several = (given,) if isinstance(given, str | type) else tuple(given)
            object.__setattr__(self, option, several)
        for name in (self.name, *self.aliases):
            check_text("task name", name, LONGEST_NAME)
        check_queue(self.queue)
        check_priority(self.priority)
        check_count("max_attempts", self.max_attempts, 1)
        check_count("max_recoveries", self.max_recoveries, 0)
        problem = None if self.backoff is None else problem_with(self.backoff)
        if problem is not None:
            raise TypeError(f"The backoff of {self.name!r} {problem}.")
        object.__setattr__(self, "timeout", check_timeout(self.timeout))
        if self.on_timeout not in ON_TIMEOUT:
            raise ValueError(
                f"on_timeout must be 'retry' or 'fail', not {self.on_timeout!r}."
            )
        if self.takes_context:
            _ = self.signature  # which raises if there is no parameter
        rules = read_retention(f"The retention of {self.name!r}", self.retention)
        object.__setattr__(self, "retention", rules)
        object.__setattr__(self, "schedule", self._schedules())
        if not callable(self.dedup):
            as_dedup(self.dedup)
        if not isinstance(self.concurrency, str | Concurrency | None):
            raise TypeError(
                f"The concurrency key of {self.name!r} must be a str, or with another limit "
                f"than 1 Concurrency('key', limit=3), not {self.concurrency!r}."
            )
        object.__setattr__(self, "concurrency", as_concurrency(self.concurrency))
        if self.limits is not None:
            check_format(self.name, self.limits.key, self.signature)
        if self.redact is not None:
            # Not else: some builtin functions have no signature.
            hidden = as_redact(self.name, self.redact, self.signature)
            object.__setattr__(self, "redact", hidden)
        for option in CALLBACKS:
            check_callback(option, getattr(self, option))
        if self.atomic and self.is_async:
            raise TypeError(
                f"Task {self.name!r} is async, but atomic=True runs it inside a database "
                "transaction, which Django offers to plain functions only. Make it a plain "
                "function, or drop atomic=True."
            )
        for option in ("retry_on", "discard_on"):
            for kind in getattr(self, option):
                if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                    raise TypeError(f"{option} takes exception classes, not {kind!r}.")

    def _schedules(self) -> tuple[Recurrence, ...]:
        given = self.schedule
        if given is None or isinstance(given, Recurrence):
            given = () if given is None else (given,)
        if not isinstance(given, list | tuple) or not all(
            isinstance(one, Recurrence) for one in given
        ):
            raise TypeError(
                f"The schedule of {self.name!r} is made by cron(...) or every(...), or is a "
                f"list of such; {self.schedule!r} is neither."
            )
        found = {one.name or self.name: one.called(self.name) for one in given}
        if len(found) < len(given):
            raise ValueError(
                f"Two schedules of {self.name!r} have one name. Give each a name=."
            )
        for one in found.values():
            try:
                self.bind(one.args, one.kwargs)
            except TypeError as error:
                raise TypeError(f"Schedule {one.name!r}: {error}") from None
        return tuple(found.values())

    @cached_property
    def redaction(self) -> Redaction | None:
        """What people may see of its jobs' arguments and results; None if they may all."""
        if self.redact is None:
            return None
        return Redaction(self.redact, self.signature)

    @cached_property
    def is_async(self) -> bool:
        """Whether the function is `async def`."""
        return inspect.iscoroutinefunction(self.func)

    @cached_property
    def signature(self) -> inspect.Signature:
        """What a dispatch must match: the function's parameters without the context."""
        signature = inspect.signature(self.func)
        if not self.takes_context:
            return signature
        parameters = list(signature.parameters.values())
        if not parameters:
            raise TypeError(
                f"Task {self.name!r} takes_context but has no parameter for it."
            )
        return signature.replace(parameters=parameters[1:])

    @cached_property
    def positional(self) -> list[str]:
        """The names of the parameters that can be given by position, in order."""
        kinds = (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        return [
            parameter.name
            for parameter in self.signature.parameters.values()
            if parameter.kind in kinds
        ]

    @cached_property
    def _enough(self) -> range:
        """How many arguments fit the function if all are given by position."""
        parameters = self.signature.parameters.values()
        kinds = {one.kind for one in parameters}
        needed = [
            one.name
            for one in parameters
            if one.default is one.empty
            and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ]
        if not set(needed).issubset(self.positional):
            return range(0)
        endless = inspect.Parameter.VAR_POSITIONAL in kinds
        return range(len(needed), sys.maxsize if endless else len(self.positional) + 1)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError, naming the task, unless the arguments fit the function."""
        if not kwargs and len(args) in self._enough:
            return
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"Arguments don't fit {self.name}{self.signature}: {error}."
            ) from None

    def dedup_for(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Dedup | None:
        """Return the task's own dedup id for these arguments, if it has one."""
        wanted = self.dedup(*args, **kwargs) if callable(self.dedup) else self.dedup
        return as_dedup(wanted)

    @property
    def limits(self) -> Concurrency | None:
        """The task's own concurrency, its key as it was written."""
        return as_concurrency(self.concurrency)

    def concurrency_for(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Concurrency | None:
        """Return the task's own concurrency for these arguments, if it has one."""
        if self.limits is None:
            return None
        return filled_in(self.limits, self.name, self.signature, args, kwargs)


class HasOptions(Protocol):
    """What makes an object a task here."""

    @property
    def options(self) -> TaskOptions:
        """The function and its options."""
        ...


_tasks: dict[str, TaskOptions] = {}
# Each is called with every module of tasks, once it is imported, and may register more.
adopters: list[Callable[[ModuleType], None]] = []


def register(options: TaskOptions) -> None:
    """Make a task known under its name and aliases.

    Raises ValueError if another function has one of them. The same function registered
    again, as after a module reload, takes the place of its former self.
    """
    for name in (options.name, *options.aliases):
        known = _tasks.get(name)
        if known is not None and _identity(known) != _identity(options):
            raise ValueError(
                f"Two tasks want the name {name!r}: {_identity(known)} and "
                f"{_identity(options)}. Give one of them another name=."
            )
    for schedule in options.schedule:
        rival = _declaring(schedule.name)
        if rival is not None and _identity(rival) != _identity(options):
            raise ValueError(
                f"Two tasks want a schedule of the name {schedule.name!r}: "
                f"{_identity(rival)} and {_identity(options)}. Give one another name=."
            )
    for name in (options.name, *options.aliases):
        _tasks[name] = options


def _identity(options: TaskOptions) -> str:
    return f"{options.func.__module__}.{options.func.__qualname__}"


def _declaring(schedule: str) -> TaskOptions | None:
    for options in _tasks.values():
        if any(one.name == schedule for one in options.schedule):
            return options
    return None


def declared() -> dict[str, tuple[TaskOptions, Recurrence]]:
    """Return the schedules that tasks declare, by name, each with its task."""
    return {
        one.name: (options, one)
        for options in map(get, names())
        for one in options.schedule
    }


def get(name: str) -> TaskOptions:
    """Return the task of this name or alias; raises UnknownTask."""
    try:
        return _tasks[name]
    except KeyError:
        raise UnknownTask(name) from None


def names() -> list[str]:
    """Return the names of all registered tasks, without aliases, in order."""
    return sorted({options.name for options in _tasks.values()})


def all_names() -> list[str]:
    """Return the names of all registered tasks, and their aliases."""
    return sorted(_tasks)


def retention(name: str, queue: str) -> Rules:
    """Return how long finished jobs of a task are kept in a queue, by status.

    A name that nobody registered any more has the queue's rules.
    """
    task = _tasks.get(name)
    return conf.retention(queue) | (task.retention if task else {})


def redaction(name: str) -> Redaction | None:
    """Return what people may see of the jobs of a task; None if all.

    A name that nobody registered any more has no rule. If the project's tasks can't be
    imported, so that nobody knows, nothing may be seen.
    """
    task = _known_anywhere(name)
    return task.redaction if isinstance(task, TaskOptions) else task


def redaction_of_known(name: str) -> Redaction | None:
    """Return the same for a worker, which has imported all tasks there are."""
    task = _tasks.get(name)
    return task.redaction if task else None


def signature(name: str) -> inspect.Signature | None:
    """Return the parameters of a task, None if it can't be found."""
    task = _known_anywhere(name)
    return task.signature if isinstance(task, TaskOptions) else None


def redacting() -> list[str]:
    """Return the names and aliases of all tasks that hide something, in order."""
    with contextlib.suppress(Exception):
        autodiscover()
    return sorted(name for name, task in _tasks.items() if task.redact is not None)


def _known_anywhere(name: str) -> TaskOptions | Redaction | None:
    if name not in _tasks:
        # A web process imports only the tasks that it calls by themselves.
        try:
            autodiscover()
        except Exception:
            return _tasks.get(name, CLOSED)
    return _tasks.get(name)


def resolve(task: Any) -> TaskOptions:
    """Return the options of a task, or of the registered name of one.

    Raises UnknownTask for a name nobody registered, TypeError for anything that is neither.
    """
    options = _named(task) if isinstance(task, str) else getattr(task, "options", None)
    if not isinstance(options, TaskOptions):
        raise TypeError(
            f"{task!r} is no task. Decorate the function with @task and pass it, or pass its "
            "registered name."
        )
    return options


def _named(name: str) -> TaskOptions:
    try:
        return get(name)
    except UnknownTask:
        # A web process imports only the tasks that it calls by themselves.
        autodiscover()
    try:
        return get(name)
    except UnknownTask:
        raise UnknownTask(name, _closest(name)) from None


def _closest(name: str) -> str | None:
    """Return the task whose name is most like this one, if any is."""
    # Modules alike say nothing, so the functions' own names decide.
    lasts: dict[str, list[str]] = {}
    for known in names():
        lasts.setdefault(known.rpartition(".")[2], []).append(known)
    for last in get_close_matches(name.rpartition(".")[2], lasts, n=1):
        return get_close_matches(name, lasts[last], n=1, cutoff=0)[0]
    return None


def check_discoverable(options: TaskOptions) -> None:
    """Raise UndiscoverableTask if workers don't import the module the task lives in."""
    module = module_of(options)
    if not is_discoverable(module):
        raise UndiscoverableTask(options.name, module)


def module_of(options: TaskOptions) -> str:
    """Return the module that has to be imported for the task to be registered."""
    return options.module or options.func.__module__


def is_discoverable(module: str) -> bool:
    """Whether workers of this project look for tasks in a module of that name."""
    return f"{module}.".startswith(_prefixes())


_found: tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]] | None = None


def _prefixes() -> tuple[str, ...]:
    """Return task_modules(), each with a dot, made anew if apps or settings have changed."""
    global _found
    # Django puts another dict in its place when other apps are installed, as in a test.
    installed, listed, found = apps.app_configs, conf.task_modules, _found
    if found is None or found[0] is not installed or found[1] != listed:
        prefixes = tuple(f"{module}." for module in task_modules())
        found = _found = (installed, listed, prefixes)
    return found[2]


def task_modules() -> list[str]:
    """Return the modules and packages in which workers look for tasks."""
    return [
        *(f"{app.name}.tasks" for app in apps.get_app_configs()),
        *conf.task_modules,
    ]


def autodiscover() -> None:
    """Import every module in which tasks may be: see `task_modules`.

    An error inside such a module is raised as it is; only a `tasks` module that an app does
    not have is passed over.
    """
    for name in app_modules():
        import_tasks(name)
    for name in conf.task_modules:
        import_tasks(name)


def app_modules() -> list[str]:
    """Return the `tasks` modules and packages that installed apps really have."""
    return [
        f"{app.name}.tasks"
        for app in apps.get_app_configs()
        if module_has_submodule(app.module, "tasks")
    ]


def import_tasks(name: str) -> None:
    """Import a module, and if it is a package every module in it."""
    modules = [importlib.import_module(name)]
    path = getattr(modules[0], "__path__", ())
    for found in pkgutil.walk_packages(path, f"{name}."):
        modules.append(importlib.import_module(found.name))
    for adopt in adopters:
        for module in modules:
            adopt(module)


def as_dedup(wanted: str | Dedup | None) -> Dedup | None:
    """Return a dedup id given as text or Dedup as the latter."""
    if wanted is None or isinstance(wanted, Dedup):
        return wanted
    return Dedup(wanted)


def check_priority(value: int) -> int:
    """Return a priority that is a whole number within Django's bounds, or raise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"priority must be an int, not {type(value).__name__}.")
    if not LOWEST_PRIORITY <= value <= HIGHEST_PRIORITY:
        raise ValueError(
            f"priority must lie between {LOWEST_PRIORITY} and {HIGHEST_PRIORITY}, larger "
            f"first; {value} does not."
        )
    return value


def check_timeout(value: Duration | None) -> float | None:
    """Return None or a timeout as seconds, or raise."""
    if value is None:
        return None
    timeout = seconds(value, what="timeout")
    if timeout == 0:
        raise ValueError("timeout must be more than 0 seconds; None is no limit.")
    return timeout


def check_count(what: str, value: int | None, least: int) -> int | None:
    """Return None or a whole number of at least `least`, or raise."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}.")
    # The largest that a PositiveIntegerField holds on every database.
    if not least <= value <= 2_147_483_647:
        raise ValueError(f"{what} must be at least {least}, not {value}.")
    return value
