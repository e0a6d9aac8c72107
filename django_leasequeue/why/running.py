"""Who holds a job that is running, and what if its lease is past."""

from django.utils.translation import gettext as _

from django_leasequeue.times import local_time
from django_leasequeue.why import takers
from django_leasequeue.why.causes import Cause, Kind
from django_leasequeue.why.look import Look


def causes(seen: Look) -> list[Cause]:
    """Return who has the lease, or who could recover the job."""
    row = seen.row
    is_live = row["worker"] in {name for name, *_rest in seen.live}
    data = {
        "worker": row["worker"],
        "until": row["processing_until"],
        "since": row["last_attempted_at"],
        "worker_is_live": is_live,
    }
    words = {"worker": row["worker"], "until": local_time(row["processing_until"])}
    if row["processing_until"] > row["now"]:
        held = _("%(worker)s runs it, on a lease until %(until)s that it renews.")
        if not is_live:
            held = _(
                "%(worker)s has it on a lease until %(until)s, but has not been seen for a "
                "minute. Unless it renews the lease, another worker runs the job after that."
            )
        return [Cause(Kind.RUNNING, held % words, data), *_asked(seen)]
    past = _(
        "%(worker)s had it, on a lease that ended at %(until)s without a renewal. The next "
        "worker that looks for jobs recovers it."
    )
    return [
        Cause(Kind.LEASE_PAST, past % words, data),
        *_asked(seen),
        *takers.causes(seen),
    ]


def _asked(seen: Look) -> list[Cause]:
    at = seen.row["cancel_requested_at"]
    if at is None:
        return []
    sentence = _(
        "A cancel was asked for at %(at)s. It ends as soon as the task looks, by "
        "context.check(), or at its end unless that is a success."
    )
    return [Cause(Kind.CANCEL_REQUESTED, sentence % {"at": local_time(at)}, {"at": at})]
