"""Running jobs inside a test: claimed, run and settled as by a worker, in the test's thread."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any, NamedTuple
from uuid import uuid4

from asgiref.sync import sync_to_async
from django.db import router

from django_leasequeue import clock as clocks
from django_leasequeue import discovery, registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.db import DatabaseNow
from django_leasequeue.durations import Duration, seconds
from django_leasequeue.exceptions import JobFailed, UnknownTask
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Outcome
from django_leasequeue.results import result_of
from django_leasequeue.selection import Selection
from django_leasequeue.states import Status
from django_leasequeue.testing import faults
from django_leasequeue.testing.clock import Clock, moving_clock
from django_leasequeue.testing.steps import InlineSteps
from django_leasequeue.testing.ticks import Ticks
from django_leasequeue.testing.transactions import committing, mending
from django_leasequeue.transitions.settle import Settled
from django_leasequeue.worker import atomic, events, runner
from django_leasequeue.worker.callbacks import call_all
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.known_queues import misspelt, unknown_queues
from django_leasequeue.worker.running import Run

WORKER = "test"
#: How the run of a worker that was made to die has ended, beside the words of worker.log.
CRASHED = "crashed"


class Ran(NamedTuple):
    """One run. `job`: its row afterwards, None if it was removed as it ended.

    `word`: "succeeded", "failed", "to be retried", "snoozed", "cancelled", "given back",
    "lost" (its lease was), or "crashed" (its worker).
    """

    job_id: int
    task: str
    word: str
    job: Job | None


def run_jobs(
    *,
    through: Duration = 0,
    queues: str | Iterable[str] = "*",
    exclude: str | Iterable[str] = "",
    schedules: bool = False,
    raises: bool = True,
    limit: int = 1000,
    using: str | None = None,
) -> list[Ran]:
    """Run all jobs that are due, and those that these dispatch; return the runs, in order.

    Each is claimed, run in this thread and settled by the statements of a worker, in the
    transaction at hand if there is one, as in a TestCase; arguments and results go through
    JSON. `through`: let so much time go by, in seconds or as a timedelta, from one job that is
    due to the next, so that retries and delayed jobs are run in their turn; see also
    moving_clock(). `schedules`: whether those that the code declares, and those in the table,
    make jobs; they count from the first call. `queues`, `exclude`: as of runjobs, or lists;
    ValueError if none of them is known. `raises`: whether to raise JobFailed, with the task's
    traceback, for the first job that has failed for good, once all have run. `limit`: fail
    after so many runs. `using`: the jobs' alias.
    """
    alias = using or router.db_for_write(Job)
    discovery.autodiscover()
    selection = Selection.parse(_listed(queues), _listed(exclude))
    _check_queues(selection, alias)
    worker = InlineWorker(alias, selection)
    with moving_clock(using=alias) as clock:
        ends = clock.ahead + timedelta(seconds=seconds(through, what="through"))
        worker.ticks = Ticks(alias) if schedules else None
        while (job := worker.next(clock, ends)) is not None:
            if len(worker.ran) >= limit:
                raise AssertionError(
                    f"After {limit} runs there is still more to do; the next is of "
                    f"{job.task}. Does each run dispatch another?"
                )
            worker.run(job)
        clock.ahead = ends
    failed = [one.job for one in worker.ran if one.word == "failed" and one.job]
    if raises and failed:
        _raise(failed[0])
    return worker.ran


def _listed(names: str | Iterable[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _check_queues(selection: Selection, using: str) -> None:
    if selection.takes_all:
        return
    unknown = unknown_queues(selection.named, using)
    if len(unknown) == len(selection.named):
        raise ValueError(" ".join(map(misspelt, unknown)))


class InlineWorker:
    """Runs one job after another."""

    def __init__(self, using: str, selection: Selection) -> None:
        self.ran: list[Ran] = []
        self.ticks: Ticks | None = None
        self._using, self._selection = using, selection
        self._jobs = Job.objects.using(using)

    def next(self, clock: Clock, ends: timedelta) -> Claimed | None:
        """Return the next job; moves the clock until one is due, to `ends` at the latest."""
        while True:
            tick_in = None if self.ticks is None else self.ticks.fire()
            due_in = [] if tick_in is None else [tick_in]
            for alone in (False, True):
                claim = self._jobs.claim(
                    self._selection, 1, uuid4(), WORKER, alone=alone
                )
                if claim.jobs:
                    return claim.jobs[0]
                if claim.due_in is not None:
                    due_in.append(claim.due_in)
            if self._jobs.start_after_groups().started:
                continue
            # Databases that count milliseconds may call a job due a little late.
            wait = timedelta(seconds=max(min(due_in, default=0), 0) + 0.002)
            if not due_in or clock.ahead + wait > ends:
                return None
            clock.move(wait)

    def claim(self, pk: int) -> Claimed:
        """Return the pending job of this id, claimed."""
        job: Claimed | None = self._jobs.claim_job(pk, uuid4(), WORKER)
        if job is None:
            raise AssertionError(f"Job {pk} is not pending, so it can't be run.")
        return job

    def run(self, job: Claimed) -> None:
        """Run a job, and store what became of it."""
        try:
            task = registry.get(job.task)
        except UnknownTask:
            task = None
        context = _Context(job, task, Event())
        context.database, context.step_store = self._using, InlineSteps(self._using)  # type: ignore[assignment]
        context.on_progress = partial(self._note_progress, job)
        run = Run(job, task, context, started_at=clocks.now())
        with committing():
            word = self._run(run)
        if run.stored is not None:
            with committing(), mending():
                call_all(job, task, run.stored, self._using)
        row = self._jobs.filter(pk=job.id).first()
        self.ran.append(Ran(job.id, job.task, word, row))

    def _note_progress(self, job: Claimed, text: str) -> None:
        self._jobs.progress(job, text)

    def _run(self, run: Run) -> str:
        job, context = run.job, run.context
        assert isinstance(context, _Context)
        settled: Settled | None = None
        context.reach(faults.START, stop=False)
        outcome: Outcome | None = None
        if not context.is_dead:
            begin = partial(self._begin, run)
            if run.task is not None and run.task.atomic:
                # There what the task writes has an atomic block of its own.
                with mending(but=self._using):
                    outcome, settled = atomic.run_and_settle(
                        job,
                        context,
                        using=self._using,
                        settle=self._settle_now(context),
                        begin=begin,
                    )
            else:
                with mending():
                    outcome = runner.run(job, context, begin)
                context.reach(faults.RUN, stop=False)
        if context.is_dead or outcome is None:
            self._jobs.release(
                job.token, [job.id], death="as the test asked", alone=True
            )
            return CRASHED
        if settled is None:
            settled = self._jobs.settle([(job, outcome)])[0]
        run.ended_at = clocks.now()
        return events.run_ended(run, outcome, settled)

    def _begin(self, run: Run) -> None:
        with mending():
            events.started(run.job, run.task, self._using)

    def _settle_now(self, context: "_Context") -> Callable[[Claimed, Outcome], Settled]:
        def settle(job: Claimed, outcome: Outcome) -> Settled:
            context.reach(faults.RUN, stop=True)
            return self._jobs.settle([(job, outcome)], with_writes=True)[0]

        return settle


class _Context(JobContext):
    """A run's context to which things may happen."""

    is_dead = False

    def reach(self, point: str, *, stop: bool) -> None:
        """Let happen what is to happen at this point; `stop`: whether to end the task there."""
        fault = faults.striking(point, self._job.task)
        if fault is None:
            return
        if fault.kind == "a crash":
            self.is_dead = True
            if stop:
                raise faults.WorkerDies
        else:
            rows = Job.objects.using(self.database).filter(pk=self.job_id)
            rows.update(processing_until=DatabaseNow(-1))
            self.lose("as the test asked")

    def step(self, name: str, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """See JobContext."""
        value = super().step(name, func, *args, **kwargs)
        self.reach(name, stop=True)
        return value

    async def astep(
        self,
        name: str,
        func: Callable[..., Awaitable[Any] | Any],
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """See JobContext."""
        value = await super().astep(name, func, *args, **kwargs)
        await sync_to_async(self.reach)(name, stop=True)
        return value


def _raise(job: Job) -> None:
    try:
        result_of(job)
    except JobFailed as error:
        if error.traceback:
            error.add_note(error.traceback)
        raise
    assert job.status != Status.FAILED
