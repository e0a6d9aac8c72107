"""A job of a schedule beside its ticks, because somebody wants it now."""

from functools import partial
from typing import Any

from django.db.models import QuerySet

from django_leasequeue import db, transitions
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.firing.jobs import RERUN_FOR, prepared_job
from django_leasequeue.origin import LONGEST_ORIGIN
from django_leasequeue.payloads import clean_text


def run_now(
    rows: QuerySet[Any], ids: list[int], jobs: QuerySet[Any], by: str
) -> list[tuple[Any, DispatchOutcome]]:
    """Make a job of each schedule of these ids, all of them or none; return what became.

    Runs again through passing trouble for 5 s, outside of a transaction. Raises what a
    dispatch does.
    """
    make = partial(_run_now, rows, ids, jobs, by)
    return db.rerun(make, using=rows.db, seconds=RERUN_FOR)


def _run_now(
    rows: QuerySet[Any], ids: list[int], jobs: QuerySet[Any], by: str
) -> list[tuple[Any, DispatchOutcome]]:
    meta = {"run_by": by} if by else {}
    known = clean_text(by, LONGEST_ORIGIN)
    done = []
    with db.write_transaction(jobs):
        for schedule in rows.filter(pk__in=ids).order_by("name"):
            args, kwargs = schedule.args, schedule.kwargs
            wanted = prepared_job(schedule, args, kwargs, None, meta)
            wanted.dispatched_by = wanted.dispatched_by or known or None
            job, outcome = transitions.dispatch.dispatch(jobs, wanted)
            done.append((job, outcome))
            if outcome is DispatchOutcome.ADDED:
                rows.filter(pk=schedule.pk).update(last_job=job.pk)
    return done
