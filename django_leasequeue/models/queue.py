"""Queues that are paused, or once were; of any other there is no row."""

from typing import TYPE_CHECKING, ClassVar, Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_leasequeue import db, transitions
from django_leasequeue.dedup import LONGEST_QUEUE
from django_leasequeue.fields import ExactCharField, UTCDateTimeField
from django_leasequeue.managers import VerbQuerySet
from django_leasequeue.managers.marks import alters_data
from django_leasequeue.models.job import Job


class QueueQuerySet(VerbQuerySet["Queue"]):
    """Queues that were paused, and the verbs. `using(alias)` chooses the database."""

    def paused(self) -> Self:
        """Queues of which no job starts now."""
        return self.filter(paused_at__isnull=False)

    @alters_data
    def pause(self, name: str, *, by: str = "", reason: str = "") -> bool:
        """Let no job of this queue start until it is resumed; running ones go on.

        Workers see it at their next look for jobs. Dispatches are stored and wait. `by`: who
        wants it so; `reason`: why; both for people. The queue need not have had a job yet.

        Returns False if it was paused already: then nothing changes. Raises ValueError for
        what can't be a queue's name, TypeError for what is no str.
        """
        rows = self._rows()
        with db.saying_what_to_migrate(rows):
            return transitions.pause.pause(rows, name, by, reason)

    @alters_data
    def resume(self, name: str, *, by: str = "") -> bool:
        """Let the jobs of this queue start again, and wake workers that wait for some.

        `by`: who wants it so, for people. Returns False if it was not paused: then nothing
        changes. Raises ValueError for what can't be a queue's name.
        """
        rows = self._rows()
        with db.saying_what_to_migrate(rows):
            return transitions.pause.resume(rows, name, by, Job._meta.db_table)


if TYPE_CHECKING:  # see managers.JobManager

    class QueueManager(QueueQuerySet, models.Manager["Queue"]):  # type: ignore[misc]
        """What `Queue.objects` is."""
else:
    QueueManager = models.Manager.from_queryset(QueueQuerySet, "QueueManager")


class Queue(models.Model):
    """A queue that somebody has paused at least once, and whether it still is.

    Made by the first `Queue.objects.pause`, and changed by the verbs only.
    """

    name = ExactCharField(_("name"), max_length=LONGEST_QUEUE, primary_key=True)
    # Set if and only if the queue is paused; by the database's clock.
    paused_at = UTCDateTimeField(_("paused at"), null=True)
    # Of the last pause, also once it is over. Exact, since that holds any character, whatever
    # the database's own charset.
    paused_by = ExactCharField(_("paused by"), max_length=255, blank=True, default="")
    reason = ExactCharField(_("reason"), max_length=500, blank=True, default="")
    # When the last pause was ended, and by whom; null and "" before.
    resumed_at = UTCDateTimeField(_("resumed at"), null=True)
    resumed_by = ExactCharField(_("resumed by"), max_length=255, blank=True, default="")

    objects: ClassVar[QueueManager] = QueueManager()

    class Meta:
        # Claims look into it by this name.
        db_table = db.QUEUES
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        ordering = ["name"]
        default_permissions = ("view",)
        permissions = [("pause_queue", "Can pause and resume queues")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_paused(self) -> bool:
        """Whether no job of it starts."""
        return self.paused_at is not None
