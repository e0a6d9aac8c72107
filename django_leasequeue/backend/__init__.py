"""The backend for Django's own task framework, `django.tasks`: see docs/backend.md.

    TASKS = {"default": {"BACKEND": "django_leasequeue.backend.LeaseQueueBackend"}}

What is enqueued is a job like any other, in the same table, run by the same workers.
"""

import django

if django.VERSION < (6, 0):
    raise ImportError(
        f"django_leasequeue.backend needs Django 6.0 or newer, since django.tasks came with "
        f"it; this is Django {django.get_version()}. Use the decorator django_leasequeue.task."
    )

from django_leasequeue import discovery
from django_leasequeue.backend.lease_queue import LeaseQueueBackend, adopt
from django_leasequeue.backend.typed import LeaseTask

__all__ = ["LeaseQueueBackend", "LeaseTask"]

discovery.adopters.append(adopt)
