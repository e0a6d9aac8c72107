"""The app's configuration."""

import contextlib

import django
from django.apps import AppConfig
from django.conf import settings
from django.utils.translation import gettext_lazy as _


class LeaseQueueConfig(AppConfig):
    """Registers the checks; tasks are imported by whoever runs or checks them."""

    name = "django_leasequeue"
    label = "leasequeue"
    verbose_name = _("Lease queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and note which databases the settings name."""
        # Not at the top: it imports the models, which are not ready before this.
        from django_leasequeue import immediate, jobs
        from django_leasequeue.checks import register_all
        from django_leasequeue.db.configured import remember_names

        register_all()
        immediate.run_now = jobs.run_at_once
        remember_names()
        if django.VERSION >= (6, 0) and _is_in_tasks():
            # Django checks its backends once something has imported it, and workers look
            # for its tasks.
            import django_leasequeue.backend  # noqa: F401


def _is_in_tasks() -> bool:
    """Whether TASKS names a backend of this package."""
    with contextlib.suppress(AttributeError):  # Django tells what is no dict
        paths = [str(entry.get("BACKEND")) for entry in settings.TASKS.values()]
        return any(path.startswith("django_leasequeue.") for path in paths)
    return False
