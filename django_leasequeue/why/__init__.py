"""Why a job is not running, from what the database holds: see `Job.objects.why`."""

from django_leasequeue.why.answer import why
from django_leasequeue.why.causes import Cause, Kind

__all__ = ["Cause", "Kind", "why"]
