"""What workers owe to jobs of Django's tasks: their signals, and results that are JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.tasks import Task
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.signals import task_finished, task_started
from django.utils.json import normalize_json

from django_leasequeue.backend import results
from django_leasequeue.claimed import Claimed
from django_leasequeue.exceptions import (
    JobFailed,
    JobWasCancelled,
    NoResult,
    UnsupportedResult,
)
from django_leasequeue.frontdoor import Answers
from django_leasequeue.outcomes import Cancelled, Failed, Outcome, Succeeded


class DjangoDoor:
    """See frontdoor.FrontDoor. `sender`: the class of the backend that has the task."""

    def __init__(self, sender: type[BaseTaskBackend], task: "Task[..., Any]") -> None:
        self.sender, self.task = sender, task

    def taken(self, value: Any) -> Any:
        """As Django's own backends take it: tuples become lists, bytes text."""
        try:
            return plain(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise UnsupportedResult(str(error)) from error

    def result_of(self, job: Claimed, using: str | None) -> results.JobResult:
        """What `context.task_result` is."""
        return results.of_run(job, None, self.task, using)

    def started(self, job: Claimed, using: str | None) -> Answers:
        """Send task_started."""
        result = results.of_run(job, None, self.task, using)
        return task_started.send_robust(self.sender, task_result=result)

    def is_told(self, outcome: Outcome) -> bool:
        """Whether a job with this outcome has ended."""
        return isinstance(outcome, Succeeded | Failed | Cancelled)

    def ended(self, job: Claimed, outcome: Outcome, using: str | None) -> Answers:
        """Send task_finished, for a job without success while its error is handled.

        So receivers find it in sys.exc_info(), as they do with Django's own backends.
        """
        result = results.of_run(job, outcome, self.task, using)
        error: NoResult | None = None
        match outcome:
            case Failed(entry):
                names = ("exception_class", "message", "traceback")
                error = JobFailed(job.id, *(entry.get(name, "") for name in names))
                # So that Django's own log of it shows where the task failed.
                error.add_note(error.traceback)
            case Cancelled():
                error = JobWasCancelled(job.id)
        if error is None:
            return task_finished.send_robust(self.sender, task_result=result)
        try:
            raise error
        except NoResult:
            return task_finished.send_robust(self.sender, task_result=result)


def plain(value: Any) -> Any:
    """Return what Django makes JSON of, in the plain classes in which it comes back.

    Raises TypeError or ValueError for anything else.
    """
    return _plain(normalize_json(value))


def as_far(value: Any) -> Any:
    """Return a value as plain() does, but with what it refuses as it is."""
    try:
        return plain(value)
    except (TypeError, ValueError):
        if isinstance(value, Mapping):
            return {_key_as_far(key): as_far(one) for key, one in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [as_far(one) for one in value]
        return value


def _key_as_far(key: Any) -> Any:
    try:
        return next(iter(plain({key: None})))
    except (TypeError, ValueError):
        return key


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_plain(one) for one in value]
    if kind is dict:
        return {_plain(key): _plain(one) for key, one in value.items()}
    # Members of enumerations and the like.
    if kind is not bool:
        for base, convert in _CONVERT:
            if isinstance(value, base):
                return convert(value)
    return value


_CONVERT: tuple[tuple[type, Any], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)
