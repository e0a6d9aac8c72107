"""Why a concurrency key keeps a job from being claimed."""

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_leasequeue import slots
from django_leasequeue.states import AWAITS_GROUP
from django_leasequeue.why.causes import Cause, Kind
from django_leasequeue.why.look import Look

# Jobs that are named.
MOST = 10


def blocked(seen: Look) -> list[Cause]:
    """Return that no slot of its key is free, and who has them, if that is so."""
    if seen.row["blocked"] in (0, AWAITS_GROUP):
        return []
    key, limit = seen.row["concurrency_key"], seen.row["concurrency_limit"] or 1
    jobs = slots.holders(seen.rows, key)
    data = {"key": key, "limit": limit, "jobs": jobs}
    words = {"key": key, "count": limit, "jobs": ", ".join(map(str, jobs[:MOST]))}
    if not jobs:
        sentence = _(
            "It has waited for a slot of its concurrency key “%(key)s”, and one is free: it "
            "is called in a moment."
        )
    else:
        sentence = ngettext(
            "It waits for its turn: of its concurrency key “%(key)s” at most %(count)d job "
            "runs at a time, now %(jobs)s.",
            "It waits for its turn: of its concurrency key “%(key)s” at most %(count)d jobs "
            "run at a time, now %(jobs)s.",
            limit,
        )
        if len(jobs) > MOST:
            words["jobs"] += " …"
    return [Cause(Kind.BLOCKED, sentence % words, data)]
