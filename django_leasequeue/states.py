"""The states of a job, and the moves between them that exist."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Status(models.TextChoices):
    """What a job is doing now; the value is what the status column holds."""

    # Waiting for its time, for a worker, or for its next attempt.
    PENDING = "pending", _("Pending")
    # Held by a worker on a lease, which may be past.
    RUNNING = "running", _("Running")
    # Ended well; its result is kept.
    SUCCEEDED = "succeeded", _("Succeeded")
    # Ended badly, with no attempt left.
    FAILED = "failed", _("Failed")
    # Ended because somebody asked for it.
    CANCELLED = "cancelled", _("Cancelled")


# What the column `blocked` of a pending job holds while no slot of its concurrency key is
# free, and while it waits for a group to be done.
AWAITS_SLOT, AWAITS_GROUP = 1, 2

FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED})

# Each verb with the states it starts from and the states it may leave a job in.
# tests/database/test_every_edge.py drives every verb against every state.
TRANSITIONS = {
    # Leases that are past first make their jobs pending, or cancelled if that was asked for.
    "claim": (
        {Status.PENDING, Status.RUNNING},
        {Status.PENDING, Status.RUNNING, Status.CANCELLED},
    ),
    "cancel": ({Status.PENDING, Status.RUNNING}, {Status.RUNNING, Status.CANCELLED}),
    # By hand: of a retry after a failed attempt it is settle that makes the job wait.
    "retry": (FINAL, {Status.PENDING}),
    # Of a delayed job, which has only its time changed.
    "run_now": ({Status.PENDING}, {Status.PENDING}),
    "progress": ({Status.RUNNING}, {Status.RUNNING}),
    "step": ({Status.RUNNING}, {Status.RUNNING}),
    "renew": ({Status.RUNNING}, {Status.RUNNING}),
    "settle": ({Status.RUNNING}, {Status.PENDING, *FINAL}),
    "release": ({Status.RUNNING}, {Status.PENDING, Status.CANCELLED}),
    # The same, for a person, whoever holds the lease.
    "force_release": ({Status.RUNNING}, {Status.PENDING, Status.CANCELLED}),
    # Whose rows they remove: by the rules of retention, and because a person wants it.
    "prune": (FINAL, set()),
    "remove": ({Status.PENDING, *FINAL}, set()),
}
