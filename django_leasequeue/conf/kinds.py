"""What a key of LEASEQUEUE may hold, and how a wrong value is told."""

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_leasequeue import backoff, hooks, retention
from django_leasequeue.durations import seconds

# Integer columns end here on every database.
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with LEASEQUEUE. `id`: the suffix of a check id, one per kind."""

    id: str
    message: str
    hint: str | None = None


class WrongSetting(ImproperlyConfigured):
    """Raised when a setting is read whose value can't be used."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(" ".join(filter(None, (problem.message, problem.hint))))

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle and copy would call __init__ with the message.
        return type(self), (self.problem,)


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds as a number, or a timedelta; both are seconds (float) once read."""

    default: float
    minimum: float = 0

    def read(self, where: str, value: Any) -> float:
        try:
            return seconds(value, what=where, minimum=self.minimum)
        except TypeError as error:
            raise WrongSetting(Problem("E003", str(error))) from error
        except ValueError as error:
            raise WrongSetting(Problem("E004", str(error))) from error


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    default: int
    minimum: int

    def read(self, where: str, value: Any) -> int:
        # True would pass for 1; it is a mistake.
        if type(value) is not int:
            kind = type(value).__name__
            raise WrongSetting(
                Problem("E003", f"{where} must be a whole number, not {kind}.")
            )
        if not self.minimum <= value <= _LARGEST:
            bounds = f"at least {self.minimum} and at most {_LARGEST:,}"
            raise WrongSetting(Problem("E004", f"{where} must be {bounds}."))
        return value


@dataclass(frozen=True, slots=True)
class WholeOrNone:
    """A whole number; None for no bound at all."""

    minimum: int
    default: None = None

    def read(self, where: str, value: Any) -> int | None:
        return None if value is None else Whole(0, self.minimum).read(where, value)


@dataclass(frozen=True, slots=True)
class Flag:
    """True or False."""

    default: bool

    def read(self, where: str, value: Any) -> bool:
        if not isinstance(value, bool):
            kind = type(value).__name__
            message = f"{where} must be True or False, not {kind}."
            raise WrongSetting(Problem("E003", message))
        return value


@dataclass(frozen=True, slots=True)
class Backoff:
    """One of the objects of `django_leasequeue.backoff`, or a callable."""

    default: backoff.Backoff

    def read(self, where: str, value: Any) -> backoff.Backoff:
        why = backoff.problem_with(value)
        if why:
            hint = "For the same wait each time: django_leasequeue.backoff.Fixed(60)."
            raise WrongSetting(Problem("E007", f"{where} {why}.", hint))
        return value


@dataclass(frozen=True, slots=True)
class Modules:
    """A list of dotted module names."""

    default: tuple[str, ...] = ()

    def read(self, where: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            kind, hint = type(value).__name__, None
            if isinstance(value, str):
                hint = f"Write [{value!r}]."
            raise WrongSetting(
                Problem(
                    "E003", f"{where} must be a list of module names, not {kind}.", hint
                )
            )
        for module in value:
            if not isinstance(module, str):
                kind = type(module).__name__
                message = f"{where} must hold module names, not {kind}."
                raise WrongSetting(Problem("E003", message))
            if not all(part.isidentifier() for part in module.split(".")):
                raise WrongSetting(
                    Problem(
                        "E008",
                        f"{where} holds {module!r}, which is no dotted module name.",
                        "Write it as in an import statement: 'shop.background'.",
                    )
                )
        return tuple(value)


@dataclass(frozen=True, slots=True)
class Paths:
    """A list of dotted paths of functions."""

    default: tuple[str, ...] = ()

    def read(self, where: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            kind = type(value).__name__
            hint = f"Write [{value!r}]." if isinstance(value, str) else None
            message = f"{where} must be a list of dotted paths, not {kind}."
            raise WrongSetting(Problem("E003", message, hint))
        for path in value:
            if not isinstance(path, str):
                kind = type(path).__name__
                message = f"{where} must hold dotted paths, not {kind}."
                raise WrongSetting(Problem("E003", message))
            if not hooks.is_dotted_path(path):
                raise WrongSetting(
                    Problem(
                        "E010",
                        f"{where} holds {path!r}, which is no dotted path.",
                        "Write module and name: 'shop.hooks.in_tenant'.",
                    )
                )
        return tuple(value)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished jobs are kept; by status once read, of those that are named."""

    default: retention.Rules

    def read(self, where: str, value: Any) -> retention.Rules:
        try:
            return retention.read(where, value)
        except retention.UnknownKey as error:
            raise WrongSetting(Problem("E009", str(error))) from error
        except TypeError as error:
            hint = 'For one status alone: {"succeeded": 3600}.'
            raise WrongSetting(Problem("E003", str(error), hint)) from error
        except ValueError as error:
            raise WrongSetting(Problem("E004", str(error))) from error


Setting = Duration | Whole | WholeOrNone | Flag | Backoff | Modules | Paths | Retention
