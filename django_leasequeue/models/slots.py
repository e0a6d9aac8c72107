"""Who has the slots of a concurrency key, and the lock under which they are given out."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_leasequeue.concurrency import LONGEST_KEY
from django_leasequeue.fields import ExactCharField, JSONTextField, UTCDateTimeField


class Slots(models.Model):
    """The slots of one key. Made by the first claim of a job that has it.

    A claim locks the row and notes who it gives a slot to, in the transaction in which their
    jobs start. Nobody gives one back: a slot is free as soon as its job's row says that the
    claim is over, or its lease is past. So none can be lost.
    """

    key = ExactCharField(_("concurrency key"), max_length=LONGEST_KEY, primary_key=True)
    # [job id, number of its claim] of those that got one last, perhaps over by now.
    holders = JSONTextField(_("holders"), default=list)
    used_at = UTCDateTimeField(_("used at"))
    # When a look for what was forgotten let a job try; null since the last claim.
    called_at = UTCDateTimeField(_("called at"), null=True)

    class Meta:
        verbose_name = _("slots of a concurrency key")
        verbose_name_plural = _("slots of concurrency keys")
        ordering = ["key"]
        # Those that nobody has used for long are removed.
        indexes = [models.Index(fields=["used_at"], name="leasequeue_slots_used")]

    def __str__(self) -> str:
        return self.key
