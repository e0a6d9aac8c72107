"""Rows as the admin has them: as read by its lists, with what its pages put into them."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django_leasequeue.models import Job, Queue, Schedule, Worker

if TYPE_CHECKING:
    from django_leasequeue.redaction import Redaction

    # For type checkers alone: no models of their own, only names for what is read and set.

    class JobRow(Job):
        """A job of LookOnlyAdmin.get_queryset(); a page's has been through the veil."""

        read_at: datetime
        may_be_seen: bool
        redaction: Redaction | None
        newest_steps: list[Any]

    class QueueRow(Queue):
        """A queue of LookOnlyAdmin.get_queryset()."""

        read_at: datetime

    class ScheduleRow(Schedule):
        """A schedule of LookOnlyAdmin.get_queryset()."""

        read_at: datetime

    class WorkerRow(Worker):
        """A worker of LookOnlyAdmin.get_queryset()."""

        read_at: datetime
else:
    JobRow, QueueRow, ScheduleRow, WorkerRow = Job, Queue, Schedule, Worker
