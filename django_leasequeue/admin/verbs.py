"""What can be done to jobs in the admin: to which, and in which words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.contrib.admin.models import CHANGE
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_leasequeue.admin.rows import JobRow
from django_leasequeue.states import Status

# Of each kind of outcome, the ids; where another job is the reason, with its id.
Outcomes = dict[str, dict[int, int | None]]


class Outcome(NamedTuple):
    """How one kind of outcome is told, and what is logged; "" of what was not changed."""

    told: Any
    logged: str = ""


@dataclass(frozen=True)
class Verb:
    """One thing that can be done to jobs.

    `name`: of the action, the address and the permission. `fates`: what would become of a
    job of each status, where `legal` are those that it would change. `do`: does it to the
    jobs of a queryset; see `of_this_run`. `outcomes`: all kinds that this may return.
    """

    name: str
    label: Any
    title: Any
    fates: Mapping[str, Any]
    legal: frozenset[str]
    do: Callable[..., Outcomes]
    outcomes: Mapping[str, Outcome]
    # Whether a job of a legal status would be changed, as its row was read.
    fits: Callable[[Any], bool] = lambda job: True
    # Whether it is for the run that was seen by whoever was asked, not for a later one: then
    # `do` takes the claims of these runs, too, by the ids of their jobs.
    of_this_run: bool = False
    # How it is logged: as a change, or as a job that is gone.
    flag: int = CHANGE


def outcomes_of(changed: Any) -> Outcomes:
    """Return what a verb has returned, a tuple of ids for each kind, without empty kinds."""
    return {
        kind: ids if isinstance(ids, dict) else dict.fromkeys(ids)
        for kind, ids in changed._asdict().items()
        if ids
    }


def _is_delayed(job: JobRow) -> bool:
    return job.run_at > job.read_at


# What several verbs say.
ENDED = _("not changed: it has ended")
_AGAIN = _("runs again, in a new round")
LOCKED = Outcome(
    ngettext_lazy(
        "%(count)d job was not changed, since somebody has it locked; try again: "
        "%(jobs)s.",
        "%(count)d jobs were not changed, since somebody has them locked; try again: "
        "%(jobs)s.",
        "count",
    )
)
GONE = Outcome(
    ngettext_lazy(
        "%(count)d job was not changed, since it is not there any more: %(jobs)s.",
        "%(count)d jobs were not changed, since they are not there any more: %(jobs)s.",
        "count",
    )
)
REFUSED = Outcome(
    ngettext_lazy(
        "%(count)d job may not have been changed, since the database refused; the log has "
        "its words: %(jobs)s.",
        "%(count)d jobs may not have been changed, since the database refused; the log has "
        "its words: %(jobs)s.",
        "count",
    )
)

CANCEL = Verb(
    name="cancel",
    label=_("Cancel"),
    title=_("Cancel jobs?"),
    fates={
        Status.PENDING: _("is cancelled at once"),
        Status.RUNNING: _(
            "is asked to stop; if it does not look, it goes on to its end"
        ),
        Status.SUCCEEDED: ENDED,
        Status.FAILED: ENDED,
        Status.CANCELLED: ENDED,
    },
    legal=frozenset({Status.PENDING, Status.RUNNING}),
    do=lambda jobs: outcomes_of(jobs.cancel()),
    outcomes={
        "cancelled": Outcome(
            ngettext_lazy(
                "%(count)d job is cancelled.", "%(count)d jobs are cancelled.", "count"
            ),
            "Cancelled.",
        ),
        "requested": Outcome(
            ngettext_lazy(
                "%(count)d running job is asked to stop.",
                "%(count)d running jobs are asked to stop.",
                "count",
            ),
            "Asked to stop.",
        ),
        "unchanged": Outcome(
            ngettext_lazy(
                "%(count)d job was not changed, since it had ended: %(jobs)s.",
                "%(count)d jobs were not changed, since they had ended: %(jobs)s.",
                "count",
            )
        ),
        "busy": LOCKED,
        "gone": GONE,
        "refused": REFUSED,
    },
)

RETRY = Verb(
    name="retry",
    label=_("Run again"),
    title=_("Run jobs again?"),
    fates={
        Status.PENDING: _("not changed: it waits"),
        Status.RUNNING: _("not changed: it runs"),
        Status.SUCCEEDED: _AGAIN,
        Status.FAILED: _AGAIN,
        Status.CANCELLED: _AGAIN,
    },
    legal=frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}),
    do=lambda jobs: outcomes_of(jobs.retry()),
    outcomes={
        "retried": Outcome(
            ngettext_lazy(
                "%(count)d job is to run again.",
                "%(count)d jobs are to run again.",
                "count",
            ),
            "To run again.",
        ),
        "conflicts": Outcome(
            ngettext_lazy(
                "%(count)d job was not changed, since another has its dedup id by now: "
                "%(jobs)s.",
                "%(count)d jobs were not changed, since others have their dedup ids by "
                "now: %(jobs)s.",
                "count",
            )
        ),
        "unfinished": Outcome(
            ngettext_lazy(
                "%(count)d job was not changed, since it waits or runs: %(jobs)s.",
                "%(count)d jobs were not changed, since they wait or run: %(jobs)s.",
                "count",
            )
        ),
        "busy": Outcome(
            ngettext_lazy(
                "%(count)d job was not changed, since somebody has it locked, or its dedup "
                "id; try again: %(jobs)s.",
                "%(count)d jobs were not changed, since somebody has them locked, or their "
                "dedup ids; try again: %(jobs)s.",
                "count",
            )
        ),
        "gone": GONE,
        "refused": REFUSED,
    },
)

RUN = Verb(
    name="run",
    label=_("Run now"),
    title=_("Run delayed jobs now?"),
    fates={
        Status.PENDING: _("is due now, if it was delayed"),
        Status.RUNNING: _("not changed: it runs"),
        Status.SUCCEEDED: ENDED,
        Status.FAILED: ENDED,
        Status.CANCELLED: ENDED,
    },
    legal=frozenset({Status.PENDING}),
    do=lambda jobs: outcomes_of(jobs.run_now()),
    outcomes={
        "made_due": Outcome(
            ngettext_lazy(
                "%(count)d job is due now.", "%(count)d jobs are due now.", "count"
            ),
            "Made due.",
        ),
        "unchanged": Outcome(
            ngettext_lazy(
                "%(count)d job was not changed, since it was due before: %(jobs)s.",
                "%(count)d jobs were not changed, since they were due before: %(jobs)s.",
                "count",
            )
        ),
        "not_waiting": Outcome(
            ngettext_lazy(
                "%(count)d job was not changed, since it runs or has ended: %(jobs)s.",
                "%(count)d jobs were not changed, since they run or have ended: %(jobs)s.",
                "count",
            )
        ),
        "busy": LOCKED,
        "gone": GONE,
        "refused": REFUSED,
    },
    fits=_is_delayed,
)
