"""What new jobs wait for, stored in the transaction that makes them."""

from typing import Any

from django.db.models import QuerySet

from django_leasequeue.specs import Prepared

# Rows of one INSERT.
_ROWS = 500


def store(rows: QuerySet[Any], wanted: list[Prepared], jobs: list[Any]) -> None:
    """Store the groups that have to be done before these new jobs start, if any."""
    groups = [(job.pk, one.after_group) for one, job in zip(wanted, jobs, strict=True)]
    waiting = [(pk, group) for pk, group in groups if group is not None]
    if waiting:
        model = rows.model._meta.get_field("group_wait").related_model
        model._base_manager.using(rows.db).bulk_create(
            [model(job_id=pk, group=group) for pk, group in waiting], batch_size=_ROWS
        )
