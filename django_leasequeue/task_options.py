"""What a task is: its function, its options, and the arguments that it takes."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from django_leasequeue.concurrency import (
    Concurrency,
    as_concurrency,
    check_format,
    filled_in,
)
from django_leasequeue.dedup import Dedup, as_dedup, check_queue, check_text
from django_leasequeue.frontdoor import FrontDoor
from django_leasequeue.hooks import CALLBACKS, Callback, check_callback
from django_leasequeue.option_values import (
    as_schedules,
    check_backoff,
    check_count,
    check_exceptions,
    check_on_timeout,
    check_priority,
    check_timeout,
    several,
)
from django_leasequeue.redaction import Redact, Redaction, as_redact
from django_leasequeue.retention import read as read_retention

LONGEST_NAME = 255


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
            self._keep(option, several(getattr(self, option)))
        for name in (self.name, *self.aliases):
            check_text("task name", name, LONGEST_NAME)
        check_queue(self.queue)
        check_priority(self.priority)
        self._check_runs()
        retention = read_retention(f"The retention of {self.name!r}", self.retention)
        self._keep("retention", retention)
        self._keep("schedule", as_schedules(self.name, self.schedule, self.bind))
        self._check_keys()
        if self.redact is not None:
            # Not else: some builtin functions have no signature.
            self._keep("redact", as_redact(self.name, self.redact, self.signature))
        self._check_endings()

    def _keep(self, option: str, value: Any) -> None:
        # A frozen dataclass refuses it in any other way.
        object.__setattr__(self, option, value)

    def _check_runs(self) -> None:
        """How often it is tried, for how long, and with what."""
        check_count("max_attempts", self.max_attempts, 1)
        check_count("max_recoveries", self.max_recoveries, 0)
        check_backoff(self.name, self.backoff)
        self._keep("timeout", check_timeout(self.timeout))
        check_on_timeout(self.on_timeout)
        if self.takes_context:
            _ = self.signature  # which raises if there is no parameter

    def _check_keys(self) -> None:
        """By what its jobs keep each other out: dedup id and concurrency key."""
        if not callable(self.dedup):
            as_dedup(self.dedup)
        if not isinstance(self.concurrency, str | Concurrency | None):
            raise TypeError(
                f"The concurrency key of {self.name!r} must be a str, or with another limit "
                f"than 1 Concurrency('key', limit=3), not {self.concurrency!r}."
            )
        self._keep("concurrency", as_concurrency(self.concurrency))
        if self.limits is not None:
            check_format(self.name, self.limits.key, self.signature)

    def _check_endings(self) -> None:
        """What is done about the outcome of a run."""
        for option in CALLBACKS:
            check_callback(option, getattr(self, option))
        if self.atomic and self.is_async:
            raise TypeError(
                f"Task {self.name!r} is async, but atomic=True runs it inside a database "
                "transaction, which Django offers to plain functions only. Make it a plain "
                "function, or drop atomic=True."
            )
        for option in ("retry_on", "discard_on"):
            check_exceptions(option, getattr(self, option))

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
