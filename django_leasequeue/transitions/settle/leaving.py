"""Jobs whose rows go in the transaction that records their outcome."""

from typing import Any

from django.db.models import QuerySet

from django_leasequeue import db, registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.retention import Rule
from django_leasequeue.states import FINAL, Status


def leaving(rows: QuerySet[Any], jobs: list[Claimed], status: Status) -> list[Claimed]:
    """Return those of which no row is kept once they are in this status."""
    if status not in FINAL:
        return []
    kinds = {(job.task, job.queue) for job in jobs}
    going = {kind for kind in kinds if _rule(*kind, status).removes_at_once}
    found = [job for job in jobs if (job.task, job.queue) in going] if going else []
    return [] if found and db.others_see_deletes(rows.model) else found


def _rule(task: str, queue: str, status: Status) -> Rule:
    try:
        registry.get(task)
    except UnknownTask:
        # Known elsewhere it may have rules of its own, which prune goes by.
        return Rule()
    return registry.retention(task, queue)[status]
