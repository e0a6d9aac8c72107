"""One running worker process, for people and health checks; no lease depends on it."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_leasequeue.fields import ExactCharField, JSONTextField, UTCDateTimeField


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

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        ordering = ["name"]

    def __str__(self):
        return self.name
