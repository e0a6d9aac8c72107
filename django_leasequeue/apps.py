"""The app's configuration."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class LeaseQueueConfig(AppConfig):
    """Registers the checks; tasks are imported by whoever runs or checks them."""

    name = "django_leasequeue"
    label = "leasequeue"
    verbose_name = _("Lease queue")
    default_auto_field = "django.db.models.BigAutoField"
