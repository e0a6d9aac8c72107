"""What a task sees of its own run."""

from collections.abc import Awaitable, Callable
from threading import Event
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from django_leasequeue import payloads
from django_leasequeue.claimed import Claimed
from django_leasequeue.exceptions import JobCancelled, JobRunAborted
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker.hiding import without_hidden
from django_leasequeue.worker.limit import NO_LIMIT, Limit
from django_leasequeue.worker.steps import Steps

if TYPE_CHECKING:
    from django_leasequeue.worker.step_store import StepStore

    DjangoContext = object
else:
    try:
        from django.tasks import TaskContext as DjangoContext
    except ImportError:  # came with Django 6.0
        DjangoContext = object

P = ParamSpec("P")
T = TypeVar("T")

# A few words; the row is written anew with each.
_PROGRESS_BYTES = 4096


def _ignore(text: str) -> None:
    """Nobody stores the progress of a run without a worker."""


class JobContext(DjangoContext):
    """One run of a job: passed as the first argument to a task that `takes_context`.

    May be used from any thread. From Django 6.0 on it is a django.tasks.TaskContext.
    """

    # A TaskContext is frozen, and compared by its task_result, which most runs never make.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # What most runs leave as it is stays with the class.
    #: Takes the JSON text of what the task says. For the worker, not for tasks.
    on_progress: Callable[[str], None] = staticmethod(_ignore)
    #: Where steps are recorded; None: nowhere. For the worker, not for tasks.
    step_store: "StepStore | None" = None
    #: The alias of the job's database; None: as routed. For the worker, not for tasks.
    database: str | None = None
    _lost_why: str | None = None
    _cancel_requested = False

    def __init__(
        self,
        job: Claimed,
        task: TaskOptions | None,
        stopping: Event | Callable[[], bool],
        limit: Limit | None = None,
    ) -> None:
        #: The options of the task; None if this process does not know it.
        self.task = task
        #: The run's time limit. For the worker, not for tasks.
        self.limit = limit or _cooperative(task)
        self._job = job
        self._is_stopping = stopping.is_set if isinstance(stopping, Event) else stopping

    def __repr__(self) -> str:
        return f"<JobContext of job {self.job_id}, attempt {self.attempt}>"

    @property
    def job_id(self) -> int:
        """The primary key of the job."""
        return self._job.id

    @property
    def task_result(self) -> Any:
        """The job as a django.tasks.TaskResult, of a task that Django's decorator has made.

        Its times and workers are read from the job's row when one of them is asked for.
        """
        made = self.__dict__.get("_made_result")
        if made is None:
            if self.task is None or self.task.door is None:
                raise AttributeError(
                    "Only tasks of django.tasks have a task_result. This one's job is "
                    f"Job.objects.get(pk={self.job_id})."
                )
            made = self.task.door.result_of(self._job, self.database)
            made = self.__dict__.setdefault("_made_result", made)
        return made

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return self._job.queue

    @property
    def attempt(self) -> int:
        """The number of this run, from 1. A run whose worker was lost had the same one."""
        return self._job.attempts + 1

    @property
    def recoveries(self) -> int:
        """How many workers were lost while they ran the job; 0 is the usual case."""
        return self._job.recoveries

    @property
    def fence(self) -> tuple[int, int]:
        """(job id, number of its claim): rises with every claim of the job.

        Hand it to outside systems that keep the highest they saw and refuse lower ones:
        it stops a run that does not know yet that its lease is lost.
        """
        return self._job.fence

    @property
    def meta(self) -> dict[str, Any]:
        """What the dispatch gave as `meta`."""
        return payloads.load(self._job.meta)

    @property
    def deadline(self) -> float | None:
        """When the run has taken its task's `timeout`, by django_leasequeue.clock.now().

        Be done by then: a success that comes later counts as timed out. None: no timeout.
        """
        return self.limit.deadline

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop: end soon, or the job is given back."""
        return self._is_stopping()

    @property
    def lease_lost(self) -> bool:
        """Whether this run no longer counts, since another worker may have the job."""
        return self.lost_why is not None

    @property
    def lost_why(self) -> str | None:
        """Why this run no longer counts; None as long as it does."""
        # Reckoned here, not only told: after a suspend, or while another thread holds the
        # interpreter, this one may be the first that runs.
        if self._lost_why is None and not self._job.is_held:
            self.lose("it could not be renewed in time")
        return self._lost_why

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked for this job to be cancelled; seen within about a second."""
        return self._cancel_requested

    def check(self) -> None:
        """Raise JobRunAborted if the lease is lost, JobCancelled if the job is to be cancelled.

        Cheap: call it before side effects.
        """
        why = self.lost_why
        if why is not None:
            raise JobRunAborted(self.job_id, why)
        if self._cancel_requested:
            raise JobCancelled(self.job_id)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Tell how far the run has come: `done` of `total`, and a few words.

        Stored in `job.progress` as {"done", "total", "text"}, seen at once, even of an atomic
        task; at most once a second, the newest each time. Never waits for the database. What
        the task's `redact` hides of the arguments is left out of the words.
        Raises TypeError or ValueError for what is not JSON or not short.
        """
        if isinstance(text, str):
            text = without_hidden(self._job)(text)
        said = {"done": done, "total": total, "text": text}
        self.on_progress(
            payloads.dump(said, what="progress", max_bytes=_PROGRESS_BYTES)
        )

    def step(
        self, name: str, func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call the function once, whatever happens to the run; return what it returned.

        That is recorded, under this name, before the call returns. If the job is run again,
        by a retry or because its worker was lost, what is recorded is returned and nothing
        called. Names are those of one run, of nested steps too. See docs/steps.md.

        Raises what the function raises, after which the step has not taken place; TypeError
        or ValueError if it returns what is not small JSON; StepRefused; and as check() does.
        """
        return self._steps.run(name, func, args, kwargs)

    async def astep(
        self,
        name: str,
        func: Callable[P, Awaitable[T] | T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """See step(). The function may be `async def` or plain; a thread runs a plain one."""
        return await self._steps.arun(name, func, args, kwargs)

    @property
    def _steps(self) -> Steps:
        made = self.__dict__.get("_made_steps")
        if made is None:
            steps = Steps(self, self._job, self.step_store)
            # Of two threads that are first, both get the same.
            made = self.__dict__.setdefault("_made_steps", steps)
        return made

    def cancel(self) -> None:
        """Tell the run that its job is to be cancelled. For the worker, not for tasks."""
        self._cancel_requested = True

    def lose(self, why: str) -> None:
        """Tell the run that its lease is lost. For the worker, not for tasks."""
        if self._lost_why is None:
            self._lost_why = why


def _cooperative(task: TaskOptions | None) -> Limit:
    """Return the limit of a run that nothing interrupts."""
    if task is None or task.timeout is None:
        return NO_LIMIT
    return Limit(task.timeout)
