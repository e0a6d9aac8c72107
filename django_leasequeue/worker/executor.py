"""The executor of one process: runs jobs in threads and coroutines, and has them settled."""

import asyncio
from collections.abc import Callable
from functools import partial

from django_leasequeue import clock, registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Outcome, Released
from django_leasequeue.registry import TaskOptions
from django_leasequeue.transitions.settle import Settled
from django_leasequeue.worker import atomic, endings, events, runner
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.deadlines import Deadlines
from django_leasequeue.worker.leases import Leases
from django_leasequeue.worker.limit import Limit
from django_leasequeue.worker.log import about, log_start, logger
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.pools import CoroutinePool, ThreadPool
from django_leasequeue.worker.progress_writer import ProgressWriter
from django_leasequeue.worker.running import Run, Running
from django_leasequeue.worker.settler import Settler
from django_leasequeue.worker.stop import Stop

# Seconds that threads have to close their connections.
_CLOSING = 5.0
# Seconds that coroutines which did not end in time have to clean up.
_CANCELLING = 1.0


class Executor:
    """Everything of a worker process but its loop. `wake` is called when a run has ended."""

    def __init__(
        self,
        options: WorkerOptions,
        leases: Leases,
        running: Running,
        stop: Stop,
        wake: Callable[[], None],
    ) -> None:
        self._database = options.database
        self._leases, self._running, self._stop, self._wake = (
            leases,
            running,
            stop,
            wake,
        )
        self._progress = ProgressWriter(options.database)
        self._settler = Settler(options.database, self._settled)
        self._deadlines = Deadlines()
        self._threads = ThreadPool(options.threads, self._work, wake)
        self._coroutines = CoroutinePool(options.async_tasks, self._awork, wake)

    @property
    def free(self) -> int:
        """How many jobs would start at once, of whichever kind they are."""
        return min(self._threads.free, self._coroutines.free)

    def start(self, job: Claimed) -> None:
        """Run a job, or give it back if a stop was asked for meanwhile."""
        try:
            task = registry.get(job.task)
        except UnknownTask:
            task = None  # what follows from that is the runner's to say
        limit = self._limit(job, task)
        context = JobContext(job, task, lambda: self._stop.asked, limit)
        run = Run(job, task, context)
        context.on_progress = partial(self._progress.put, run)
        self._running.add(run)
        if self._stop.asked:
            self._ended(run, Released())
        elif task is not None and task.is_async:
            self._coroutines.start(run)
        else:
            self._threads.start(run)

    def abandon(self, give_back: bool) -> int:
        """Let go of the jobs that still run; return how many.

        `give_back`: whether to store that they are, or to leave it to somebody else.
        """
        left = [run for run in self._running.unfinished() if self._running.close(run)]
        for run in left:
            # Its thread goes on for as long as the process does.
            run.context.lose("the worker stopped")
            if give_back:
                self._settler.put(run, Released())
        return len(left)

    def close(self, seconds: float, left: int) -> None:
        """Store the outcomes that are left, for so long at the most, and end all threads.

        `left`: how many jobs still run; their threads can't be ended.
        """
        self._settler.close(seconds)
        self._progress.close(_CLOSING)
        self._coroutines.close(_CANCELLING if left else _CLOSING)
        self._threads.close(0 if left else _CLOSING)
        self._deadlines.close()

    def _limit(self, job: Claimed, task: TaskOptions | None) -> Limit | None:
        if task is None or task.timeout is None:
            return None
        started = partial(self._leases.began, job, task)
        ended = partial(self._leases.ended, job)
        return Limit(task.timeout, self._deadlines, started, ended)

    def _work(self, run: Run) -> None:
        """Run a job in this thread."""
        if self._stop.asked:
            # It waited for a thread; what has not started is given back.
            self._ended(run, Released())
            return
        try:
            if run.task is not None and run.task.atomic:
                self._run_atomic(run)
            else:
                begin = partial(self._begin, run)
                self._ended(run, runner.run(run.job, run.context, begin))
        except BaseException as error:
            self._ended(run, _broken(run, error))

    def _run_atomic(self, run: Run) -> None:
        outcome, settled = atomic.run_and_settle(
            run.job,
            run.context,
            using=self._database,
            settle=self._settle_now,
            begin=partial(self._begin, run),
        )
        if settled is None:
            self._ended(run, outcome)
        elif self._running.close(run):
            self._settled(run, events.run_ended(run, outcome, settled))

    def _settle_now(self, job: Claimed, outcome: Outcome) -> Settled:
        jobs = Job.objects.using(self._database)
        return jobs.settle([(job, outcome)], with_writes=True)[0]

    async def _awork(self, run: Run) -> None:
        """Run a job of an `async def` task."""
        try:
            outcome = await runner.arun(
                run.job, run.context, partial(self._abegin, run)
            )
        except asyncio.CancelledError:
            outcome = Released()
        except BaseException as error:
            outcome = _broken(run, error)
        self._ended(run, outcome)

    def _begin(self, run: Run) -> None:
        """Tell that the task is about to be called."""
        self._tell_start(run)
        events.started(run.job)

    async def _abegin(self, run: Run) -> None:
        self._tell_start(run)
        await events.astarted(run.job)

    def _tell_start(self, run: Run) -> None:
        run.started_at = clock.now()
        # Before the task can do any harm, so that its supervisor knows whose doing it was.
        self._leases.started(run.job)
        log_start(run.job)

    def _ended(self, run: Run, outcome: Outcome) -> None:
        if self._running.close(run):
            self._settler.put(run, outcome)

    def _settled(self, run: Run, word: str) -> None:
        self._running.remove(run)
        self._leases.finished(run.job.token, run.job.id, word)
        # Its thread has woken the loop; a stop and a drain go by what is stored.
        if self._stop.asked or not self._running:
            self._wake()


def _broken(run: Run, error: BaseException) -> Outcome:
    """Return the outcome of a run that the runner could not bring to an end."""
    job = run.job
    logger.critical(
        "Job %s (%s): an error of the worker itself ended this run.",
        job.id,
        job.task,
        exc_info=error,
        extra=about(job),
    )
    return endings.failure(job, None, error)
