"""What a job's run has done for good: the results of its durable steps."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_leasequeue.fields import ExactCharField, JSONTextField, UTCDateTimeField
from django_leasequeue.models.job import Job
from django_leasequeue.rounds import LONGEST_STEP


class Step(models.Model):
    """A step that has run, with what it returned. Written once, and never changed."""

    id = models.BigAutoField(primary_key=True)
    # Without a constraint in the database: on InnoDB the insert would lock the job's row
    # and hold up its renewals. Without an index of its own: the unique one begins with it.
    job = models.ForeignKey(
        Job,
        models.CASCADE,
        related_name="steps",
        db_constraint=False,
        db_index=False,
        verbose_name=_("job"),
    )
    # A new round of the job starts without steps.
    round = models.PositiveIntegerField(_("round"))
    name = ExactCharField(_("name"), max_length=LONGEST_STEP)
    result = JSONTextField(_("result"), null=True)
    # How long it ran, in seconds.
    seconds = models.FloatField(_("seconds"))
    # The run it was part of, and who ran it.
    attempt = models.PositiveIntegerField(_("attempt"))
    worker = models.CharField(_("worker"), max_length=255)
    recorded_at = UTCDateTimeField(_("recorded at"))

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["job", "round", "name"], name="leasequeue_step_name"
            )
        ]

    def __str__(self) -> str:
        return self.name
