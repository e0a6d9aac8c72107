"""The app's configuration."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class LeaseQueueConfig(AppConfig):
    """Registers the checks; tasks are imported by whoever runs or checks them."""

    name = "django_leasequeue"
    label = "leasequeue"
    verbose_name = _("Lease queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        """Register the system checks, and note which databases the settings name."""
        # Not at the top: it imports the models, which are not ready before this.
        from django_leasequeue.checks import register_all
        from django_leasequeue.db.configured import remember_names

        register_all()
        remember_names()
