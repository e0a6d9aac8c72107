"""One running worker process, for people and health checks; no lease depends on it."""

from typing import TYPE_CHECKING, ClassVar, Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_leasequeue import db
from django_leasequeue.fields import ExactCharField, JSONTextField, UTCDateTimeField

# Seconds since it was last seen for which a worker counts as alive: six of its beats.
LIVE_FOR = 60.0


class WorkerQuerySet(models.QuerySet["Worker"]):
    """Workers by whether they still work."""

    def live(self) -> Self:
        """Those seen in the last minute."""
        return self.filter(last_seen_at__gt=db.DatabaseNow(-LIVE_FOR))

    def silent(self) -> Self:
        """Those that were not: dead, frozen, or without a way to the database.

        One that ends in an orderly way takes its row along; another row is kept for a day.
        """
        return self.filter(last_seen_at__lte=db.DatabaseNow(-LIVE_FOR))


if TYPE_CHECKING:  # see managers.JobManager

    class WorkerManager(WorkerQuerySet, models.Manager["Worker"]):  # type: ignore[misc]
        """What `Worker.objects` is."""
else:
    WorkerManager = models.Manager.from_queryset(WorkerQuerySet, "WorkerManager")


class Worker(models.Model):
    """A process that runs jobs and was seen lately. Jobs show it by its name."""

    # host:pid:random, made anew at every start, so that no two processes ever share it.
    name = ExactCharField(_("name"), max_length=255, unique=True)
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveIntegerField(_("process id"))
    # As given on the command line; "*" takes every queue.
    queues = JSONTextField(_("queues"), default=list)
    exclude = JSONTextField(_("excluded queues"), default=list)
    # The names of the tasks it has registered: a job of any other is not run by it.
    tasks = JSONTextField(_("tasks"), default=list)
    # {"python": …, "django": …, "django_leasequeue": …}
    versions = JSONTextField(_("versions"), default=dict)
    started_at = UTCDateTimeField(_("started at"))
    last_seen_at = UTCDateTimeField(_("last seen at"), db_index=True)

    objects: ClassVar[WorkerManager] = WorkerManager()

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
