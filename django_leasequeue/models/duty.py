"""What one worker at a time does for all of them, such as pruning."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_leasequeue.fields import ExactCharField, UTCDateTimeField


class Duty(models.Model):
    """Work for one worker at a time: who does it, on a lease, and when it is due again.

    Made by the first worker that looks for it. Nothing depends on its being done by one
    alone but the load: a lease that ends too early does no harm.
    """

    name = ExactCharField(_("name"), max_length=50, primary_key=True)
    # The worker that does it now; "" between two times.
    holder = models.CharField(_("holder"), max_length=255, default="", blank=True)
    # When it may be taken from its holder, who is gone or hangs then.
    held_until = UTCDateTimeField(_("held until"))
    due_at = UTCDateTimeField(_("due at"))

    class Meta:
        verbose_name = _("duty")
        verbose_name_plural = _("duties")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
