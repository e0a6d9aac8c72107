"""The job that a schedule makes: what its row asks for, checked, and stored."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from django_leasequeue import db, registry, transitions
from django_leasequeue.concurrency import Concurrency
from django_leasequeue.dedup import Dedup, DispatchOutcome
from django_leasequeue.exceptions import DedupConflict
from django_leasequeue.recurrence.declared import SKIP
from django_leasequeue.specs import JobSpec, Prepared, prepare

# Seconds for which the making of jobs runs again through passing trouble.
RERUN_FOR = 5.0
_OPTIONS = (
    "queue",
    "priority",
    "max_attempts",
    "group",
    "meta",
    "dedup",
    "concurrency",
)


def prepared_job(
    schedule: Any, args: Any, kwargs: Any, tick: datetime | None, meta: dict[str, Any]
) -> Prepared:
    """Check what a schedule asks for. Raises what a dispatch raises before it writes."""
    options = _options(schedule.options)
    dedup = _dedup(options.pop("dedup", None))
    limited = options.get("concurrency")
    if isinstance(limited, dict):
        options["concurrency"] = Concurrency(**limited)
    task = registry.get(schedule.task)
    task.bind(args, kwargs)
    if dedup is None:
        dedup = task.dedup_for(args, kwargs)
    if dedup is None and schedule.overlap == SKIP:
        dedup = Dedup(f"schedule:{schedule.name}")
    meta = {**(options.pop("meta", None) or {}), **meta}
    spec = JobSpec(schedule.task, args, kwargs, meta=meta, dedup=dedup, **options)
    wanted = prepare(spec)
    wanted.made_by = {"schedule": schedule.name, "tick": tick}
    if tick is not None:
        wanted.dispatched_by = None  # by its schedule, which the row tells anyway
    return wanted


def _options(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise TypeError(f"Options must be an object, not {type(given).__name__}.")
    for name in given:
        if name not in _OPTIONS:
            raise TypeError(
                f"A schedule has no option {name!r}. There are {', '.join(_OPTIONS)}."
            )
    if not isinstance(given.get("meta") or {}, dict):
        raise TypeError(f"meta must be a dict, not {type(given['meta']).__name__}.")
    return dict(given)


def _dedup(given: Any) -> Dedup | None:
    if given is None:
        return None
    if isinstance(given, dict):
        return Dedup(**given)
    return Dedup(given)


def check(schedule: Any) -> None:
    """Raise what would keep a schedule from making jobs; see prepared_job()."""
    prepared_job(schedule, schedule.args, schedule.kwargs, None, {})


def store(jobs: QuerySet[Any], wanted: Prepared) -> tuple[Any, str]:
    """Store the job, in the transaction at hand; return it, or None, and why it is not new.

    The second is "" for a new job.
    """
    try:
        with transaction.atomic(using=jobs.db):
            job, outcome = transitions.dispatch.dispatch(jobs, wanted)
    except DedupConflict as error:
        return None, str(error)
    except IntegrityError as error:
        if not db.is_violation(error, _tick_constraint(jobs), jobs.model):
            raise
        return None, "There is a job of this tick already."
    if outcome is DispatchOutcome.ADDED:
        return job, ""
    if outcome is DispatchOutcome.SKIPPED:
        return None, f"Job {job.pk} holds the dedup id {wanted.rules.id!r}."
    return job, f"Job {job.pk}, which holds the dedup id, was {_done(outcome)}."


def _done(outcome: DispatchOutcome) -> str:
    return "asked to run again" if outcome is DispatchOutcome.RERUN else outcome.value


def _tick_constraint(jobs: QuerySet[Any]) -> Any:
    return next(
        constraint
        for constraint in jobs.model._meta.constraints
        if getattr(constraint, "fields", None) == ("schedule", "tick")
    )
