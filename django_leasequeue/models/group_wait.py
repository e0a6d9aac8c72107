"""What a job that is to run after a group waits for."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_leasequeue.fields import ExactCharField
from django_leasequeue.models.job import Job
from django_leasequeue.specs import LONGEST_GROUP


class GroupWait(models.Model):
    """A job that starts once a group is done. Made with the job, removed when it may start.

    A table of its own, which is nearly always empty: so nothing else pays for an index.
    """

    # Without a constraint in the database: on InnoDB the insert would lock the job's row.
    job = models.OneToOneField(
        Job,
        models.CASCADE,
        primary_key=True,
        related_name="group_wait",
        db_constraint=False,
        verbose_name=_("job"),
    )
    # Whose jobs have to end first.
    group = ExactCharField(_("group"), max_length=LONGEST_GROUP)

    class Meta:
        verbose_name = _("wait for a group")
        verbose_name_plural = _("waits for groups")
        indexes = [
            models.Index(fields=["group", "job"], name="leasequeue_group_wait"),
        ]

    def __str__(self) -> str:
        return self.group
