"""How long a job waits, runs or ran, in a few words, by the database's clock."""

from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.translation import gettext as _

from django_leasequeue.admin.rows import JobRow
from django_leasequeue.admin.shown import EMPTY
from django_leasequeue.states import AWAITS_GROUP, AWAITS_SLOT, Status
from django_leasequeue.times import local_time, span


def timing(job: JobRow) -> Any:
    """Return it as a time, whose title says since when or until when."""
    now = job.read_at
    if job.status == Status.PENDING:
        return _waiting(job, now)
    began = job.last_attempted_at
    if job.status == Status.RUNNING and began is not None:
        text = _("has run for %(span)s") % {"span": _between(began, now)}
        return _time(began, text, _("since %(at)s") % {"at": local_time(began)})
    ended = job.finished_at
    if ended is None:
        return EMPTY
    title = _("ended %(at)s") % {"at": local_time(ended)}
    if began is None:
        return _time(ended, _("never ran"), title)
    return _time(ended, _("took %(span)s") % {"span": _between(began, ended)}, title)


def _waiting(job: JobRow, now: datetime) -> Any:
    due = job.run_at
    title = _("due %(at)s") % {"at": local_time(due)}
    if due > now:
        text = _("due in %(span)s") % {"span": _between(now, due)}
    elif job.blocked == AWAITS_SLOT:
        text = _("waits for a slot, due for %(span)s") % {"span": _between(due, now)}
    elif job.blocked == AWAITS_GROUP:
        text = _("waits for a group, due for %(span)s") % {"span": _between(due, now)}
    else:
        text = _("has waited for %(span)s") % {"span": _between(due, now)}
    return _time(due, text, title)


def _between(start: datetime, end: datetime) -> str:
    seconds = max((end - start).total_seconds(), 0)
    # Most runs take less than a second.
    return span(seconds) if seconds >= 1 else _("%(n)d ms") % {"n": seconds * 1000}


def _time(at: datetime, text: str, title: str) -> Any:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', at.isoformat(), title, text
    )
