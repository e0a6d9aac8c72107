"""Which group a job waits for, and how many of its jobs are left."""

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_leasequeue.states import AWAITS_GROUP, Status
from django_leasequeue.why.causes import Cause, Kind
from django_leasequeue.why.look import Look

# Jobs of the group that are counted.
MOST = 1000


def awaited(seen: Look) -> list[Cause]:
    """Return that its group is not done, if it waits for one."""
    if seen.row["blocked"] != AWAITS_GROUP:
        return []
    mine = seen.rows.filter(pk=seen.row["id"]).order_by()
    group = mine.values_list("group_wait__group", flat=True).first()
    unfinished = [Status.PENDING, Status.RUNNING]
    left = seen.rows.filter(group=group, status__in=unfinished).order_by()
    count = left[:MOST].count() if group is not None else 0
    data = {"group": group, "left": count}
    if not count:
        sentence = _(
            "The group “%(group)s” that it waits for is done, so it starts as soon as a "
            "worker looks."
        )
    else:
        sentence = ngettext(
            "It waits for the group “%(group)s”, of which %(left)d job waits or runs.",
            "It waits for the group “%(group)s”, of which %(left)d jobs wait or run.",
            count,
        )
    return [Cause(Kind.AWAITS_GROUP, sentence % data, data)]
