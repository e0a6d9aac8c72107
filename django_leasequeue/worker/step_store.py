"""The thread that asks for the steps of running jobs, and records them.

A connection of its own: a task's threads need none for their steps, a coroutine never waits
for the database, and nothing of the task's own transactions gets in between.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from django.db import DataError, Error, IntegrityError, connections
from django.db.models import QuerySet

from django_leasequeue.claimed import Claimed
from django_leasequeue.models import Job, Step
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.outage import Outage
from django_leasequeue.worker.steps import TryAgain
from django_leasequeue.worker.vital import vital_thread


class StepQuestions:
    """What can be asked about steps on `database`; a subclass says how in `_ask`.

    Each verb returns a Future at once.
    """

    def __init__(self, database: str) -> None:
        self._database = database

    def names(self, job: Claimed) -> Future[Any]:
        """Ask for the names of the steps that are recorded for the job's round."""
        return self._ask(lambda: set(self._steps(job).values_list("name", flat=True)))

    def result(self, job: Claimed, name: str) -> Future[Any]:
        """Ask for the result of a step that is recorded."""
        one = self._steps(job).filter(name=name)
        return self._ask(lambda: one.values_list("result", flat=True).get())

    def record(
        self, job: Claimed, name: str, result: str, seconds: float, first: bool
    ) -> Future[Any]:
        """Ask for a step to be recorded; see transitions.step for what it comes to."""
        jobs = Job.objects.using(self._database)
        return self._ask(
            lambda: jobs.record_step(job, name, result, seconds, first=first)
        )

    def _steps(self, job: Claimed) -> QuerySet[Any]:
        steps = Step.objects.using(self._database).order_by()
        return steps.filter(job_id=job.id, round=job.round)

    def _ask(self, call: Callable[[], Any]) -> Future[Any]:
        raise NotImplementedError


class StepStore(StepQuestions):
    """Asks in a thread of its own, which starts with the first question.

    A Future fails with TryAgain, caused by the database's error, if the same may work later.
    """

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self._bounded = Bounded(database)
        self._outage = Outage("store the steps of jobs", database)
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def close(self, seconds: float) -> None:
        """End the thread. Runs that still ask have ended as far as the worker goes."""
        self._asked.put(None)
        if self._thread is not None:
            self._thread.join(seconds)

    def _ask(self, call: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._thread is None:
                self._thread = vital_thread(self._work, name="leasequeue-steps")
                self._thread.start()
        self._asked.put((call, future))
        return future

    def _work(self) -> None:
        try:
            while (asked := self._asked.get()) is not None:
                self._answer(*asked)
                del asked  # what a step returned is not to be kept until the next
        finally:
            connections.close_all()

    def _answer(self, call: Callable[[], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            with self._bounded:
                answer = call()
        except Exception as error:
            future.set_exception(self._judged(error))
        else:
            self._outage.worked()
            future.set_result(answer)

    def _judged(self, error: Exception) -> Exception:
        """Return what the run is to get instead of this error."""
        if not isinstance(error, Error) or isinstance(
            error, (DataError, IntegrityError)
        ):
            return error
        is_away = self._bounded.is_away(error)
        again = TryAgain(self._outage.failed(error), is_away)
        again.__cause__ = error
        return again
