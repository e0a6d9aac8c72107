"""The schedule that is ticked."""

from django_leasequeue import every
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Schedule


def create(task, args):
    """Store a schedule of a second that makes each of its ticks, however late."""
    rule = every(
        seconds=1, missed="all", cap=1000, overlap="allow", name="s", args=args
    )
    now = {name: DatabaseNow() for name in ("created_at", "since", "next_tick")}
    Schedule.objects.create(name="s", **rule.columns(task), **now)
