"""A tick: the schedule's row goes on and its job is stored, in one transaction.

Whoever locks the row decides; others pass on. If the process dies in between, neither has
happened, and the tick is another's.
"""

from copy import deepcopy
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db.models import QuerySet

from django_leasequeue import clock, db, registry, signals, transitions
from django_leasequeue.firing.jobs import RERUN_FOR, prepared_job, store
from django_leasequeue.payloads import clean_text
from django_leasequeue.recurrence import due

# Seconds after which the ticks that are left of many are for another transaction: this one
# keeps a row locked, on SQLite everybody, and would be ended if it took too long.
_LONG = 0.5


class ScheduledTick:
    """A tick on its way to become a job: what receivers of `before_schedule` may change."""

    def __init__(self, schedule: Any, at: datetime) -> None:
        #: When it is due, an aware datetime in UTC, however late it is by now.
        self.at = at
        #: Those of the job.
        self.args: list[Any] = deepcopy(schedule.args)
        self.kwargs: dict[str, Any] = deepcopy(schedule.kwargs)
        self.declined: str | None = None

    def decline(self, reason: str) -> None:
        """Let this tick make no job; the reason is kept with the schedule."""
        self.declined = reason or "Declined."


class Fired(NamedTuple):
    """What one look at a schedule that is due has done.

    Of many ticks perhaps not all: then it is due again at once.
    """

    schedule: Any
    jobs: list[Any]
    # Of the last tick that made no job, and "" if each did.
    skipped_why: str


class _Overtaken(Exception):
    pass


def fire(rows: QuerySet[Any], jobs: QuerySet[Any], pk: int) -> Fired | None:
    """Make the jobs of a schedule's ticks that have passed; None if there is nothing to do.

    `rows`, `jobs`: of whole tables. None also if somebody else is at it. Raises UnknownTask,
    ValueError or TypeError for what its row asks for, what receivers raise, and the
    database's errors; then nothing has changed.
    """
    try:
        return db.rerun(
            partial(_fire, rows, jobs, pk), using=rows.db, seconds=RERUN_FOR
        )
    except _Overtaken:
        return None


def _fire(rows: QuerySet[Any], jobs: QuerySet[Any], pk: int) -> Fired | None:
    with db.write_transaction(jobs):
        found = db.take(transitions.schedule.read(rows.filter(pk=pk)))
        if not found:
            return None
        [schedule] = found
        now = schedule.read_at
        if schedule.next_tick is None or schedule.next_tick > now:
            return None
        coming = transitions.schedule.next_tick(schedule, now)
        if coming is None or coming > now:
            transitions.schedule.look_later(rows, schedule, coming)
            return Fired(schedule, [], "")
        registry.get(schedule.task)
        since = transitions.schedule.counted_from(schedule)
        passed = due(schedule.ticks, since, now, schedule.missed, schedule.cap)
        assert passed.passed is not None  # since one was coming
        fired, left = _make_jobs(schedule, jobs, passed.ticks)
        if left:
            last = passed.ticks[-left - 1]
            _write(rows, schedule, fired, last)
            return fired
        if passed.missed:
            fired = fired._replace(skipped_why="It was missed, and those are not run.")
            schedule.skipped_tick = passed.passed
        _write(rows, schedule, fired, passed.passed)
        return fired


def _make_jobs(
    schedule: Any, jobs: QuerySet[Any], ticks: list[datetime]
) -> tuple[Fired, int]:
    """Make a job of each tick, of one at least; return also how many ticks are left."""
    made: list[Any] = []
    skipped = ""
    ends = clock.now() + _LONG
    for place, tick in enumerate(ticks):
        if schedule.limit is not None and schedule.fired >= schedule.limit:
            break
        if place and clock.now() > ends:
            return Fired(schedule, made, skipped), len(ticks) - place
        job, why = _make_job(schedule, jobs, tick)
        if job is not None:
            made.append(job)
            schedule.fired += 1
            schedule.last_job = job.pk
        if why:
            skipped, schedule.skipped_tick = why, tick
    return Fired(schedule, made, skipped), 0


def _make_job(schedule: Any, jobs: QuerySet[Any], tick: datetime) -> tuple[Any, str]:
    coming = ScheduledTick(schedule, tick)
    signals.before_schedule.send(type(schedule), schedule=schedule, tick=coming)
    if coming.declined is not None:
        return None, coming.declined
    return store(jobs, prepared_job(schedule, coming.args, coming.kwargs, tick, {}))


def _write(rows: QuerySet[Any], schedule: Any, fired: Fired, passed: datetime) -> None:
    schedule.last_tick = passed
    longest = rows.model._meta.get_field("skipped_why").max_length
    columns = {
        "next_tick": transitions.schedule.next_tick(schedule, schedule.read_at),
        "fired": schedule.fired,
        "last_job": schedule.last_job,
        "problem": "",
        "problem_at": None,
    }
    if fired.skipped_why:
        columns["skipped_tick"] = schedule.skipped_tick
        columns["skipped_why"] = clean_text(fired.skipped_why, longest)
    if not transitions.schedule.advance(rows, schedule.pk, passed, columns):
        raise _Overtaken
