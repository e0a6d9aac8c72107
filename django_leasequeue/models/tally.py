"""How many jobs finished in each minute of the last day, for charts."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_leasequeue.fields import UTCDateTimeField


class Tally(models.Model):
    """One minute: how many jobs ended in it, and how.

    Made by one worker a minute or so after it is over, see transitions.tally; removed after a
    day. Counted from the rows that are there by then: what retention has removed before, or
    somebody has run again, is not in it.
    """

    # When it began; whole minutes.
    minute = UTCDateTimeField(_("minute"), primary_key=True)
    succeeded = models.PositiveIntegerField(_("succeeded"), default=0)
    failed = models.PositiveIntegerField(_("failed"), default=0)
    cancelled = models.PositiveIntegerField(_("cancelled"), default=0)

    class Meta:
        verbose_name = _("tally")
        verbose_name_plural = _("tallies")
        ordering = ["minute"]
        # Nothing that anybody may do with it.
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.minute)
