"""What a project may have called around its jobs, and what a callback gets."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils.module_loading import import_string

#: A function of one argument, the EndedRun, plain or `async def`; or its dotted path.
Callback = Callable[["EndedRun"], Any] | str

# The options of a task that are called once an outcome is stored.
CALLBACKS = ("on_success", "on_failure", "on_retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run whose outcome is stored: what `on_success`, `on_failure` and `on_retry` get."""

    job_id: int
    task: str
    queue: str
    #: Arguments and meta as they were dispatched; None if the row holds no JSON there. Of a
    #: run that was killed with its process, arguments are None too if its row has begun
    #: another round since.
    args: list[Any] | None
    kwargs: dict[str, Any] | None
    meta: dict[str, Any] | None
    #: The number of the run, from 1.
    attempt: int
    worker: str
    #: What the task returned, as it is stored: None where that was not kept.
    result: Any = None
    #: Of a run that failed: exception_class, message, traceback, attempt, at and worker, as
    #: in `job.errors`; else None.
    error: dict[str, Any] | None = None
    #: When the job runs again, counted from the end of this run; None if it does not.
    retry_in: timedelta | None = None


def check_callback(what: str, callback: Any) -> None:
    """Raise TypeError, naming `what`, for what can't be a callback."""
    if callback is None:
        return
    if isinstance(callback, str):
        if not is_dotted_path(callback):
            raise TypeError(
                f"{what} must be a function or its dotted path, such as 'shop.hooks.tell'; "
                f"{callback!r} is neither."
            )
        return
    if not callable(callback):
        kind = type(callback).__name__
        raise TypeError(f"{what} must be a function or its dotted path, not {kind}.")
    try:
        inspect.signature(callback).bind(None)
    except ValueError:
        pass  # some that are written in C don't say what they take
    except TypeError as error:
        raise TypeError(
            f"{what} is called with one argument, the EndedRun. {callback!r} can't be: "
            f"{error}."
        ) from None


def is_dotted_path(text: str) -> bool:
    """Whether this may be the path of something in a module."""
    parts = text.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def load(path: str) -> Callable[..., Any]:
    """Return the callable at a dotted path.

    Raises what importing it does, ImportError among it, or TypeError if it can't be called.
    """
    found = import_string(path)
    if not callable(found):
        raise TypeError(f"{path!r} is a {type(found).__name__}, not a function.")
    return found
