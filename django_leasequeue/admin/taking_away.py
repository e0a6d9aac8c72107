"""The verbs that take something away: a job from its worker, a job from the table."""

from django.contrib.admin.models import DELETION
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_leasequeue.admin.rows import JobRow
from django_leasequeue.admin.verbs import (
    ENDED,
    GONE,
    LOCKED,
    REFUSED,
    Outcome,
    Verb,
    outcomes_of,
)
from django_leasequeue.states import FINAL, Status


def _has_no_window(job: JobRow) -> bool:
    is_over = job.dedup_until is None or job.dedup_until <= job.read_at
    return job.dedup_id is None or is_over


RELEASE = Verb(
    name="release",
    label=_("Release"),
    title=_("Take jobs from their workers?"),
    fates={
        Status.PENDING: _("not changed: it waits"),
        Status.RUNNING: _(
            "is taken from its worker and waits again, or has ended if it was asked to "
            "stop; until the worker is told, it may run twice at one time"
        ),
        Status.SUCCEEDED: ENDED,
        Status.FAILED: ENDED,
        Status.CANCELLED: ENDED,
    },
    legal=frozenset({Status.RUNNING}),
    do=lambda jobs, claims: outcomes_of(jobs.force_release(claims)),
    outcomes={
        "released": Outcome(
            ngettext_lazy(
                "%(count)d job was taken from its worker and waits again.",
                "%(count)d jobs were taken from their workers and wait again.",
                "count",
            ),
            "Taken from its worker.",
        ),
        "cancelled": Outcome(
            ngettext_lazy(
                "%(count)d job was taken from its worker and is cancelled, as it was asked "
                "to be.",
                "%(count)d jobs were taken from their workers and are cancelled, as they "
                "were asked to be.",
                "count",
            ),
            "Taken from its worker and cancelled.",
        ),
        "not_running": Outcome(
            ngettext_lazy(
                "%(count)d job was not changed, since it did not run: %(jobs)s.",
                "%(count)d jobs were not changed, since they did not run: %(jobs)s.",
                "count",
            )
        ),
        "claimed_since": Outcome(
            ngettext_lazy(
                "%(count)d job was not changed, since a worker has begun it anew meanwhile: "
                "%(jobs)s.",
                "%(count)d jobs were not changed, since workers have begun them anew "
                "meanwhile: %(jobs)s.",
                "count",
            )
        ),
        "busy": LOCKED,
        "gone": GONE,
        "refused": REFUSED,
    },
    of_this_run=True,
)

_REMOVED = _("its row is removed, unless its dedup window lasts")

REMOVE = Verb(
    name="remove",
    label=_("Delete"),
    title=_("Delete jobs?"),
    fates={
        Status.PENDING: _("its row is removed, and it never runs"),
        Status.RUNNING: _("not changed: it runs"),
        Status.SUCCEEDED: _REMOVED,
        Status.FAILED: _REMOVED,
        Status.CANCELLED: _REMOVED,
    },
    legal=FINAL | {Status.PENDING},
    do=lambda jobs: outcomes_of(jobs.remove()),
    outcomes={
        "removed": Outcome(
            ngettext_lazy(
                "%(count)d job is deleted.", "%(count)d jobs are deleted.", "count"
            ),
            "Deleted.",
        ),
        "running": Outcome(
            ngettext_lazy(
                "%(count)d job was not deleted, since it runs: %(jobs)s.",
                "%(count)d jobs were not deleted, since they run: %(jobs)s.",
                "count",
            )
        ),
        "in_window": Outcome(
            ngettext_lazy(
                "%(count)d job was not deleted, since its dedup window lasts: %(jobs)s.",
                "%(count)d jobs were not deleted, since their dedup windows last: %(jobs)s.",
                "count",
            )
        ),
        "busy": Outcome(
            ngettext_lazy(
                "%(count)d job was not deleted, since somebody has it locked, or rows of "
                "others keep it; try again: %(jobs)s.",
                "%(count)d jobs were not deleted, since somebody has them locked, or rows "
                "of others keep them; try again: %(jobs)s.",
                "count",
            )
        ),
        "gone": GONE,
        "refused": REFUSED,
    },
    fits=_has_no_window,
    flag=DELETION,
)
