"""The ticker: the thread that makes the jobs of schedules, in every worker.

There is no leader: whoever comes first to a tick makes its job, see firing. It lives where
jobs are run, since only there the tasks are known, and has a thread of its own, so that no
job holds up a tick. It sleeps until the next tick, and at the most for as long as a change
by others may stay unseen. Nothing that happens here is a reason for the worker to stop.
"""

import random
from datetime import timedelta

from django.db import Error, connections
from django.db.models import QuerySet

from django_leasequeue import clock, firing, payloads, transitions
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.models import Job, Schedule
from django_leasequeue.payloads.tracebacks import message_of
from django_leasequeue.schedules.declare import (
    DECLARE_EVERY,
    GONE_AFTER,
    Declared,
    declare,
)
from django_leasequeue.worker.beside import Beside
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.log import logger
from django_leasequeue.worker.outage import Outage

# Seconds between two looks: while there are schedules, and while there are none.
_LOOK_EVERY, _LOOK_FOR_ANY_EVERY = 5.0, 30.0
# Seconds until a schedule is looked at again that somebody else is at, which grow while that
# lasts, or that has a problem.
_BUSY, _LONG_BUSY, _BROKEN = 0.05, 1.0, 30.0
# Schedules that are looked at in one go.
_MOST = 100
# A tick that nobody has made a job of by then finds no worker that knows its task.
_NOBODYS = timedelta(minutes=1)


class Ticker(Beside):
    """Ticks in a thread of its own, from `start()` to `close()`."""

    def __init__(self, database: str) -> None:
        super().__init__("leasequeue-ticker")
        self._database = database
        self._outage = Outage("look at schedules", database)
        self._bounded = Bounded(database)
        self._began = clock.now()
        self._declare_at = 0.0
        # Schedules with a problem, and when to look at each again, by `clock.now()`.
        self._set_aside: dict[int, float] = {}
        # Those that somebody else is at, and for how long each was let be.
        self._busy: dict[int, float] = {}
        self._told: set[str] = set()
        self._rows: QuerySet[Schedule] = QuerySet(Schedule, using=database)
        self._jobs: QuerySet[Job] = QuerySet(Job, using=database)

    def work(self) -> None:
        """See Beside."""
        try:
            pause = random.uniform(0, 0.5)  # workers that start together
            while not self._stop.wait(pause):
                try:
                    pause = self.turn()
                except Exception as error:
                    pause = self._outage.failed(error)
                else:
                    self._outage.worked()
        finally:
            connections.close_all()

    def turn(self) -> float:
        """Do what is due; return the seconds until there is more. Raises what stops it."""
        now = clock.now()
        if now >= self._declare_at:
            lasting = now - self._began > GONE_AFTER.total_seconds()
            with self._bounded:
                done = declare(self._database, lasting=lasting)
            self._declare_at = now + (_LONG_BUSY if done.busy else DECLARE_EVERY)
            self._tell(done)
        self._set_aside = {
            pk: until for pk, until in self._set_aside.items() if until > now
        }
        pause = self._look()
        if pause is None:
            connections[self._database].close()  # not kept for nothing
            return random.uniform(0.8, 1) * _LOOK_FOR_ANY_EVERY
        return pause

    def _look(self) -> float | None:
        """Make the jobs that are due; return the seconds to sleep, None if nothing ticks."""
        coming = self._rows.filter(next_tick__isnull=False).order_by("next_tick")
        if self._set_aside:
            coming = coming.exclude(pk__in=list(self._set_aside))
        names = ("pk", "name", "task", "next_tick", "read_at")
        with self._bounded:
            found = list(transitions.schedule.read(coming).values_list(*names)[:_MOST])
        was_busy, self._busy = self._busy, {}
        pauses = [until - clock.now() for until in self._set_aside.values()]
        for pk, name, task, at, read_at in found:
            if self._stop.is_set():
                break
            wait = (at - read_at).total_seconds()
            if wait <= 0:
                wait = self._fire(pk, name, task, -wait)
                if wait is None:
                    wait = min(2 * was_busy.get(pk, _BUSY / 2), _LONG_BUSY)
                    self._busy[pk] = wait
                    wait = random.uniform(wait / 2, wait)
            pauses.append(wait)
        if not pauses:
            return None
        return max(0.001, min(*pauses, _LOOK_EVERY))

    def _fire(self, pk: int, name: str, task: str, late: float) -> float | None:
        """Make the jobs of a schedule; return the seconds until it is looked at again.

        None if somebody else is at it.
        """
        try:
            with self._bounded:
                fired = firing.fire(self._rows, self._jobs, pk)
        except UnknownTask:
            # Newer code than this may run it.
            if late > _NOBODYS.total_seconds():
                self._note(
                    pk, name, f"No worker that looked at it knows the task {task}."
                )
        except BaseException as error:  # a receiver may raise even SystemExit
            if isinstance(error, Error) and self._bounded.is_away(error):
                raise
            text = payloads.clean_text(message_of(error), 900)
            self._note(pk, name, f"{type(error).__name__}: {text}")
        else:
            if fired is None:
                return None
            self._told.discard(name)
            self._log(fired)
            return 0.0
        self._set_aside[pk] = clock.now() + _BROKEN
        return _BROKEN

    def _note(self, pk: int, name: str, problem: str) -> None:
        with self._bounded:
            transitions.schedule.note_problem(self._rows, pk, problem)
        if name not in self._told:
            self._told.add(name)
            logger.warning(
                "Schedule %s makes no jobs: %s",
                name,
                problem,
                extra={"schedule": name, "problem": problem},
            )

    def _log(self, fired: firing.Fired) -> None:
        for job in fired.jobs:
            logger.info(
                "Schedule %s made job %s.",
                fired.schedule.name,
                job.pk,
                extra={"schedule": fired.schedule.name, "job_id": job.pk},
            )
        if fired.skipped_why:
            logger.info(
                "Schedule %s skipped a tick: %s",
                fired.schedule.name,
                fired.skipped_why,
                extra={"schedule": fired.schedule.name},
            )

    def _tell(self, done: Declared) -> None:
        for name in done.clashing:
            if name not in self._told:
                self._told.add(name)
                logger.warning(
                    "The code declares a schedule %s, and the admin has one of that name: "
                    "the admin's is in force.",
                    name,
                    extra={"schedule": name},
                )
        for word, names in done._asdict().items():
            if names and word not in ("clashing", "busy"):
                logger.info("Schedules %s: %s.", word, ", ".join(sorted(names)))
