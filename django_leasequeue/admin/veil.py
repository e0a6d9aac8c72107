"""What of a job's data its page shows: not what its task hides, and none to whoever may not."""

from typing import Any

from django_leasequeue import registry
from django_leasequeue.admin.rows import JobRow
from django_leasequeue.models import Job, Schedule
from django_leasequeue.redaction import HIDDEN, arguments
from django_leasequeue.why import Cause
from django_leasequeue.why.ended import in_short

# What a job was given or has yielded, but for its errors and its progress.
DATA = ("args", "kwargs", "next_args", "next_kwargs", "meta", "result")
_SAYING = ("message", "traceback")
# Columns that no address of a list may ask for: whoever may not see them could guess.
OF_JOB = (*DATA, "errors", "progress")
OF_SCHEDULE = ("args", "kwargs", "options")


def draw(job: JobRow, may_see: bool) -> None:
    """Leave in the instance what the page may show. `may_see`: the arguments, that is.

    Before anything is made of it, so that whatever shows a column shows this. Nobody stores
    the instance.
    """
    job.may_be_seen = may_see
    if may_see:
        job.redaction = registry.redaction(job.task)
        if job.redaction is not None:
            _set(job, job.redaction.shown({name: getattr(job, name) for name in DATA}))
        return
    _set(job, {name: HIDDEN for name in DATA if getattr(job, name) is not None})
    # A text may quote an argument.
    job.errors = _without_texts(job.errors)
    if isinstance(job.progress, dict):
        hidden = {"text": HIDDEN} if job.progress.get("text") else {}
        job.progress = {**job.progress, **hidden}
    elif job.progress is not None:
        job.progress = HIDDEN


def draw_schedule(schedule: Schedule, may_see: bool) -> None:
    """Leave in a schedule's instance what may be shown to whoever can't change it."""
    if not may_see:
        _set(schedule, dict.fromkeys(OF_SCHEDULE, HIDDEN))
        return
    names = ("args", "kwargs")
    redaction = registry.redaction(schedule.task)
    if redaction is not None:
        _set(
            schedule, redaction.shown({name: getattr(schedule, name) for name in names})
        )


def named(job: Job) -> dict[str, Any] | None:
    """Return the arguments of an instance by the names of parameters, None if they don't fit."""
    return arguments(registry.signature(job.task), job.args, job.kwargs)


def head_of_result(job: JobRow, head: str, is_whole: bool) -> str:
    """Return the beginning of the JSON of a step's result as the page may show it."""
    if not job.may_be_seen:
        return HIDDEN
    if job.redaction is None:
        return head
    return job.redaction.head_of_result(head, is_whole)


def sentence(job: JobRow, cause: Cause) -> str:
    """Return why a job does not run, without the words of an error if they are hidden."""
    if job.may_be_seen or not cause.data.get("message"):
        return cause.sentence
    hidden = {**cause.data, "message": HIDDEN}
    return cause.sentence.replace(in_short(cause.data), in_short(hidden))


def _set(row: Job | Schedule, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)


def _without_texts(errors: Any) -> Any:
    if not isinstance(errors, list):
        return HIDDEN
    return [
        {
            name: HIDDEN if value and name in _SAYING else value
            for name, value in error.items()
        }
        if isinstance(error, dict)
        else HIDDEN
        for error in errors
    ]
