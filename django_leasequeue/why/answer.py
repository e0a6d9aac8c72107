"""The answer: which causes apply to a job, what holds it back now first."""

from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from django_leasequeue.states import FINAL, Status
from django_leasequeue.why import ended, pending, running
from django_leasequeue.why.causes import Cause, Kind
from django_leasequeue.why.look import look


def why(rows: QuerySet[Any], pk: Any) -> list[Cause]:
    """Return why the job of this id is not running, or what it does instead.

    At least one cause, what holds it back now first. At most seven statements, whatever
    the tables hold, all by an index, and none waits for a lock.
    """
    seen = look(rows, pk)
    if seen is None:
        return [_gone(rows, pk)]
    status = seen.row["status"]
    if status in FINAL:
        return ended.causes(seen)
    if status == Status.RUNNING:
        return running.causes(seen)
    if status == Status.PENDING:
        return pending.causes(seen)
    sentence = _("Its status is “%(status)s”, which this release does not know.")
    data = {"status": status}
    return [Cause(Kind.UNKNOWN_STATUS, sentence % data, data)]


def _gone(rows: QuerySet[Any], pk: Any) -> Cause:
    sentence = _(
        "There is no job %(job)s in database “%(database)s”: it has ended and was removed "
        "(RETENTION), or its dispatch was rolled back or is not committed yet."
    )
    data = {"job": pk, "database": rows.db}
    return Cause(Kind.GONE, sentence % data, data)
