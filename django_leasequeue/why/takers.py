"""Whether anybody could take the job: live workers, their queues and their tasks."""

import contextlib

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_leasequeue import db, discovery, registry
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.why.causes import Cause, Kind
from django_leasequeue.why.look import Look, has


def causes(seen: Look) -> list[Cause]:
    """Return why nobody can take it: at most one cause of workers, and the database's."""
    found = []
    if not db.takes_writes(seen.rows.db):
        sentence = _(
            "The database takes no writes now (it is read-only, as in maintenance or after a "
            "failover), so no worker can take a job."
        )
        found.append(Cause(Kind.READ_ONLY, sentence, {"database": seen.rows.db}))
    if seen.takers:
        return found + _lacking(seen)
    if seen.all_live:
        found.append(_nobody(seen))
    return found


def _nobody(seen: Look) -> Cause:
    queue, count = seen.row["queue"], len(seen.live)
    data = {"queue": queue, "workers": count}
    if not count:
        sentence = _("No worker is alive: none was seen in the last minute.")
        return Cause(Kind.NO_WORKER, sentence, data)
    sentence = ngettext(
        "No live worker takes its queue “%(queue)s”; %(workers)d takes others.",
        "No live worker takes its queue “%(queue)s”; %(workers)d take others.",
        count,
    )
    return Cause(Kind.NOT_TAKEN, sentence % data, data)


def _lacking(seen: Look) -> list[Cause]:
    task, takers = seen.row["task"], seen.takers
    if any(has(taker.tasks, [task]) for taker in takers) or not seen.all_live:
        return []
    # Their rows name no aliases.
    if any(has(taker.tasks, [_main_name(task)]) for taker in takers):
        return []
    sentence = ngettext(
        "The %(workers)d live worker that takes its queue has no task “%(task)s”: it runs "
        "older or other code.",
        "The %(workers)d live workers that take its queue have no task “%(task)s”: they run "
        "older or other code.",
        len(takers),
    )
    data = {"task": task, "workers": len(takers)}
    return [Cause(Kind.TASK_MISSING, sentence % data, data)]


def _main_name(task: str) -> str:
    # Whatever the project's modules raise: the answer is about the workers' code.
    with contextlib.suppress(Exception):
        discovery.autodiscover()
    try:
        return registry.get(task).name
    except UnknownTask:
        return task
