"""Texts of a run that may quote an argument, without what its task hides."""

from collections.abc import Callable

from django_leasequeue import registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.fields import read_json
from django_leasequeue.payloads.tracebacks import traceback_of


class WithoutHidden(Exception):
    """The traceback of an error as text, for the log, without what its task hides."""


def without_hidden(job: Claimed) -> Callable[[str], str]:
    """Return what takes out of a text what people may not see of the job's arguments."""
    redaction = registry.redaction_of_known(job.task)
    if redaction is None:
        return str
    return redaction.without(read_json(job.args), read_json(job.kwargs))


def to_be_logged(job: Claimed, error: BaseException) -> BaseException:
    """Return the error, or if the job's task hides something one that tells of it without."""
    if registry.redaction_of_known(job.task) is None:
        return error
    return WithoutHidden(traceback_of(error, without_hidden(job)))
