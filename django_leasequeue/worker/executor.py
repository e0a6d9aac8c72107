"""The executor of one process: runs jobs in threads and coroutines, and has them settled."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial

from django_leasequeue import clock, registry, traces
from django_leasequeue.claimed import Claimed
from django_leasequeue.exceptions import UnknownTask
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, Outcome, Released
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.transitions.settle import Settled
from django_leasequeue.worker import atomic, endings, events, middleware, runner
from django_leasequeue.worker.callback_threads import CallbackThreads, warn_not_called
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.deadlines import Deadlines
from django_leasequeue.worker.forecast import HORIZON, PATIENCE, Forecast
from django_leasequeue.worker.killed import Killed
from django_leasequeue.worker.leases import Leases
from django_leasequeue.worker.limit import NO_LIMIT, Limit
from django_leasequeue.worker.log import about, log_start, logger
from django_leasequeue.worker.options import LARGEST_CLAIM, WorkerOptions
from django_leasequeue.worker.pools import CoroutinePool, ThreadPool
from django_leasequeue.worker.progress_writer import ProgressWriter
from django_leasequeue.worker.running import Run, Running
from django_leasequeue.worker.settler import Settler
from django_leasequeue.worker.step_store import StepStore
from django_leasequeue.worker.stop import Stop

# Seconds that threads have to close their connections.
_CLOSING = 5.0
# Seconds for callbacks of the last outcomes, at a stop that has taken all its time: less than
# a supervisor grants besides.
_CALLING = 1.0
# Seconds that coroutines which did not end in time have to clean up.
_CANCELLING = 1.0


class Executor:
    """Everything of a worker process but its loop.

    `wake` is called when a run has ended and there may be room for more.
    """

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
        self._callbacks = CallbackThreads(options.threads, options.database, self._over)
        self._steps = StepStore(options.database)
        self._settler = Settler(options.database, self._settled)
        self._deadlines = Deadlines()
        self._threads = ThreadPool(options.threads, self._work, self._freed)
        self._coroutines = CoroutinePool(options.async_tasks, self._awork, self._freed)
        # A share of so many jobs is counted as they are claimed, and jobs that run alone
        # are never claimed ahead.
        self._may_claim_ahead = (
            options.stop_after is None and options.suspects != "only"
        )
        self._forecast = Forecast()
        # The runs whose turn it is.
        self._active: set[Run] = set()
        # A line of the board for each job that is held, and those that nobody has.
        self._most_held = options.most_held
        self._lines = deque(range(self._most_held))
        # How many places have to be free before the loop is woken for it, and whether it is.
        self._wake_from, self._woken = 1, False
        # Whether what is in hand holds up the next claim.
        self._held_up = False
        # Whether outcomes were stored since somebody asked.
        self._has_stored = False

    @property
    def free(self) -> int:
        """How many jobs would start at once, of whichever kind they are."""
        return min(self._threads.free, self._coroutines.free)

    def has_stored(self) -> bool:
        """Return whether outcomes were stored since the last call."""
        if not self._has_stored:
            return False
        self._has_stored = False
        return True

    def room(self) -> int:
        """Return how many jobs to claim now: what would start at once or very soon.

        Less than 1 while enough is in hand; then `wake` is called once that changes.
        """
        self._woken = False
        if self._has_enough:
            self._held_up = True
            return 0
        ahead = self._ahead()
        # In few claims of many jobs rather than in many of few.
        self._wake_from = 1 - ahead // 2
        free = self.free
        return min(free + ahead, LARGEST_CLAIM) if free >= self._wake_from else 0

    @property
    def _has_enough(self) -> bool:
        """Whether a whole claim would be more than it may hold, or callbacks pile up."""
        held = len(self._running)
        return self._callbacks.have_enough or held > self._most_held - LARGEST_CLAIM

    def _ahead(self) -> int:
        if not self._may_claim_ahead:
            return 0
        since = clock.now() - HORIZON
        slow = [run for run in tuple(self._active) if run.began_before(since)]
        stuck = sum(run.is_async for run in slow)
        parts = (
            1 - (len(slow) - stuck) / self._threads.places,
            1 - stuck / self._coroutines.places,
        )
        return self._forecast.ahead(min(parts))

    def start(self, jobs: list[Claimed]) -> None:
        """Run jobs as places become free, or give them back if a stop was asked for."""
        now, is_stopping = clock.now(), self._is_stopping
        runs = [self._run_of(job, is_stopping, now) for job in jobs]
        self._running.add(runs)
        if self._stop.asked:
            for run in runs:
                self._ended(run, Released())
            return
        plain: list[Run] = []
        coroutines: list[Run] = []
        for run in runs:
            (coroutines if run.is_async else plain).append(run)
        if coroutines:
            self._coroutines.start(coroutines)
        self._threads.start(plain)

    def give_back_late(self) -> None:
        """Give back the jobs that should have started by now, for others to run."""
        for run in self._running.close_late(HORIZON + PATIENCE):
            self._settler.put(run, Released())

    def _run_of(
        self, job: Claimed, is_stopping: Callable[[], bool], came_at: float
    ) -> Run:
        try:
            task = registry.get(job.task)
        except UnknownTask:
            task = None  # what follows from that is the runner's to say
        context = JobContext(job, task, is_stopping, self._limit(job, task))
        context.step_store, context.database = self._steps, self._database
        run = Run(job, task, context, came_at)
        if (task and task.takes_context) or middleware.loaded():
            # Somebody sees the context. The cycle that this makes takes time to collect.
            context.on_progress = partial(self._progress.put, run)
        return run

    def _is_stopping(self) -> bool:
        return self._stop.asked

    def abandon(self, give_back: bool) -> int:
        """Let go of the jobs that still run; return how many.

        `give_back`: whether to store that they are, or to leave it to somebody else.
        """
        left = [run for run in self._running.unfinished() if self._running.close(run)]
        for run in left:
            # Its thread goes on for as long as the process does.
            run.context.lose("the worker stopped")
            if give_back:
                self._settler.put(run, Released(why=traces.WORKER_STOPS))
        return len(left)

    def close(self, seconds: float, left: int) -> int:
        """Store the outcomes that are left, for so long at the most, and end all threads.

        `left`: how many jobs still run; their threads can't be ended. Returns of how many
        callbacks that is true too.
        """
        self._settler.close(seconds)
        self.call_for_killed()
        calling = self._callbacks.close(_CALLING)
        self._progress.close(_CLOSING)
        self._steps.close(_CLOSING)
        self._coroutines.close(_CANCELLING if left else _CLOSING)
        self._threads.close(0 if left else _CLOSING)
        self._deadlines.close()
        # Heard of since then, if any.
        warn_not_called(self._running.take_killed())
        return calling

    def _limit(self, job: Claimed, task: TaskOptions | None) -> Limit:
        if task is None or task.timeout is None:
            return NO_LIMIT
        started = partial(self._leases.began, job, task)
        ended = partial(self._leases.ended, job)
        return Limit(task.timeout, self._deadlines, started, ended)

    def _work(self, run: Run) -> None:
        """Run a job in this thread."""
        if not self._take_turn(run):
            return
        try:
            if run.task is not None and run.task.atomic:
                self._run_atomic(run)
            else:
                begin = partial(self._begin, run)
                self._ended(run, runner.run(run.job, run.context, begin))
        except BaseException as error:
            self._ended(run, _broken(run, error))
        finally:
            self._leave(run)

    def _take_turn(self, run: Run) -> bool:
        """Return whether a job whose turn has come is to be run."""
        if not self._running.begin(run):
            return False
        instead: Outcome | None = None
        if self._stop.asked or run.context.lease_lost:
            # It waited for a place. What has not started is given back, if it is still ours.
            instead = Released()
        elif run.context.cancel_requested:
            instead = Cancelled()
        if instead is not None:
            self._ended(run, instead)
            return False
        self._active.add(run)
        run.line = self._lines.popleft()
        return True

    def _leave(self, run: Run) -> None:
        self._active.discard(run)
        assert run.started_at is not None
        self._forecast.ended(run.started_at)

    def _freed(self) -> None:
        if not self._woken and self.free >= self._wake_from:
            self._woken = True
            self._wake()

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
            self._settled([(run, events.run_ended(run, outcome, settled))])

    def _settle_now(self, job: Claimed, outcome: Outcome) -> Settled:
        jobs = Job.objects.using(self._database)
        return jobs.settle([(job, outcome)], with_writes=True)[0]

    async def _awork(self, run: Run) -> None:
        """Run a job of an `async def` task."""
        if not self._take_turn(run):
            return
        try:
            outcome = await runner.arun(
                run.job, run.context, partial(self._abegin, run)
            )
        except asyncio.CancelledError:
            outcome = Released(why=traces.WORKER_STOPS)
        except BaseException as error:
            outcome = _broken(run, error)
        finally:
            self._leave(run)
        self._ended(run, outcome)

    def _begin(self, run: Run) -> None:
        """Tell that the task is about to be called."""
        self._tell_start(run)
        events.started(run.job, run.task, self._database)

    async def _abegin(self, run: Run) -> None:
        self._tell_start(run)
        await events.astarted(run.job, run.task, self._database)

    def _tell_start(self, run: Run) -> None:
        # Before the task can do any harm, so that its supervisor knows whose doing it was.
        assert run.line is not None
        self._leases.started(run.job, run.line)
        log_start(run.job)

    def _ended(self, run: Run, outcome: Outcome) -> None:
        if self._running.close(run):
            self._settler.put(run, outcome)

    def _settled(self, done: list[tuple[Run, str]]) -> None:
        self._running.remove(self._callbacks.take([run for run, _ in done]))
        ids = defaultdict(list)
        for run, word in done:
            ids[run.job.token, word].append(run.job.id)
        for (token, word), some in ids.items():
            self._leases.finished(token, some, word)
        self._lines.extend(run.line for run, _ in done if run.line is not None)
        self._has_stored = True
        self._go_on()
        self._wake_if_awaited()

    def _over(self, run: Run | Killed) -> None:
        """Note that all callbacks of a run are over."""
        if isinstance(run, Killed):
            self._running.remove_killed(run)
        else:
            self._running.remove([run])
        self._go_on()
        self._wake_if_awaited()

    def _go_on(self) -> None:
        if self._held_up and not self._has_enough:
            self._held_up = False
            self._wake()

    def call_for_killed(self) -> None:
        """Have the callbacks called of runs that were killed in another process."""
        for killed in self._running.take_killed():
            self._callbacks.put(killed)

    def _wake_if_awaited(self) -> None:
        # A stop, a drain and a job that is to run alone wait for what is stored.
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
