"""What a database with jobs lacks, and what in its tables can't go on."""

import contextlib
from collections.abc import Iterator

from django.core.checks import CheckMessage
from django.db import DatabaseError, connections

from django_leasequeue import discovery
from django_leasequeue.checks.messages import new_message
from django_leasequeue.models import Schedule
from django_leasequeue.monitoring import stale
from django_leasequeue.worker.readiness import missing_migrations


def schema_problems(alias: str, tables: list[str]) -> Iterator[CheckMessage]:
    """Yield what is wrong with this app's tables in a database, which is asked."""
    behind = missing_migrations(alias)
    if behind:
        yield new_message(
            "W111",
            f"Database {alias!r} lacks {', '.join(behind)} of this app's migrations, so "
            "workers don't start and a dispatch may fail.",
            f"Run 'manage.py migrate --database {alias}'.",
        )
        return
    yield from _broken_schedules(alias)
    yield from _stale_jobs(alias)
    absent = sorted(set(tables) - set(connections[alias].introspection.table_names()))
    if absent:
        yield new_message(
            "W112",
            f"Database {alias!r} has no table {' and no '.join(absent)}, though it is marked "
            "as migrated.",
            "Restore it, or run 'manage.py migrate leasequeue zero --fake' and then "
            "'manage.py migrate'.",
        )


def _broken_schedules(alias: str) -> Iterator[CheckMessage]:
    with contextlib.suppress(DatabaseError):  # no table, which is told by the next
        broken = Schedule.objects.using(alias).filter(enabled=True).exclude(problem="")
        for schedule in broken.order_by("name")[:20]:
            yield new_message(
                "W114",
                f"The schedule {schedule.name!r} in {alias!r} makes no jobs: "
                f"{schedule.problem}",
                "Mend it in the code, or in the admin if it was made there.",
            )


def _stale_jobs(alias: str) -> Iterator[CheckMessage]:
    try:
        discovery.autodiscover()
    except Exception:
        return  # which E201 tells, and what could not be imported is no more known
    with contextlib.suppress(DatabaseError):  # no table, which is told by the next
        for unknown in stale.unknown_tasks(alias):
            yield new_message(
                "W115",
                f"Of pending jobs in {alias!r}, {unknown.number} are of the task "
                f"{unknown.task!r}, which this code does not have; job {unknown.first} is "
                "one. Workers put them off a few times, then fail them.",
                "Give the task's old name to its new one, @task(aliases=[...]), or cancel "
                f"them: 'manage.py jobs cancel --task {unknown.task}'.",
            )
        for misfit in stale.misfits(alias):
            yield new_message(
                "W116",
                f"Of pending jobs in {alias!r}, {misfit.number} of the task {misfit.task!r} "
                f"have arguments that its function no longer takes; job {misfit.first} is "
                f"one: {misfit.why}",
                "They fail as they are run. Give new parameters a default, or cancel the "
                "jobs and dispatch others.",
            )
