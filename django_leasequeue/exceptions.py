"""Every error this package raises, each with the facts as attributes."""

from typing import Any


class LeaseQueueError(Exception):
    """Base of every error of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle and copy would call __init__ with the message, where it takes the facts.
        return _rebuilt, (type(self), self.args, vars(self))


def _rebuilt(
    kind: type[BaseException], args: tuple[Any, ...], facts: dict[str, Any]
) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args  # which an OSError, such as TimeoutError, leaves to its __init__
    vars(error).update(facts)
    return error


class UnknownTask(LeaseQueueError, LookupError):
    """No task of this name is registered in this process. `close`: a name that is like it."""

    def __init__(self, name: str, close: str | None = None) -> None:
        self.name, self.close = name, close
        hint = f"Did you mean {close!r}? " if close else ""
        if "<locals>" in name:
            hint += (
                "It was defined inside a function, which workers do not call: define it at "
                "the top of its module. "
            )
        super().__init__(
            f"No task is registered as {name!r}. {hint}Tasks are found in the 'tasks' module "
            "of each installed app and in the modules that LEASEQUEUE['TASK_MODULES'] lists."
        )


class UndiscoverableTask(LeaseQueueError):
    """The task lives in a module that workers do not import."""

    def __init__(self, name: str, module: Any) -> None:
        self.name, self.module = name, module
        super().__init__(
            f"Task {name!r} is defined in {module!r}, which workers do not import, so no "
            "worker could run it. Move it to the 'tasks' module of an installed app, or add "
            f"{module!r} to LEASEQUEUE['TASK_MODULES']."
        )


class DedupConflict(LeaseQueueError):
    """The dedup id is held by a job of another task."""

    def __init__(
        self, dedup_id: str, queue: str, wanted: Any, owner_id: Any, owner_task: Any
    ) -> None:
        self.dedup_id, self.queue, self.wanted = dedup_id, queue, wanted
        self.owner_id, self.owner_task = owner_id, owner_task
        super().__init__(
            f"Dedup id {dedup_id!r} in queue {queue!r} is held by job {owner_id} of task "
            f"{owner_task!r}, so no job of {wanted!r} was dispatched. Give each task ids of "
            "its own, for example with the task's name as a prefix."
        )


class DispatchConflict(LeaseQueueError):
    """The dispatch could not be decided inside the caller's transaction."""

    def __init__(self, dedup_id: str, queue: str, why: str) -> None:
        self.dedup_id, self.queue, self.why = dedup_id, queue, why
        super().__init__(
            f"The dispatch of {dedup_id!r} in queue {queue!r} was not decided: {why}. Nothing "
            "was stored. Run the whole transaction again, or dispatch in "
            "transaction.on_commit()."
        )


class JobNotRunnable(LeaseQueueError):
    """The one job that was to be run can't be run now; nothing has changed."""

    def __init__(self, job_id: int, why: str) -> None:
        self.job_id, self.why = job_id, why
        super().__init__(f"Job {job_id} can't be run now: {why}.")


class RetryRefused(LeaseQueueError):
    """The job can't be run again by hand now. `holder_id`: the job that has its dedup id."""

    def __init__(self, job_id: int, why: str, holder_id: Any = None) -> None:
        self.job_id, self.why, self.holder_id = job_id, why, holder_id
        super().__init__(f"Job {job_id} was not retried and is as it was: {why}.")


class NoResult(LeaseQueueError):
    """Base of what a wait raises for a job that will have no result."""


class JobFailed(NoResult):
    """The awaited job has failed for good. The facts are those of its newest error.

    `exception_class`: its dotted name. `reason`: its message. `traceback`: as text.
    """

    def __init__(
        self, job_id: int, exception_class: Any, reason: str, traceback: Any = ""
    ) -> None:
        self.job_id, self.exception_class = job_id, exception_class
        self.reason, self.traceback = reason, traceback
        what = f"{exception_class}: {reason}" if exception_class else reason
        super().__init__(f"Job {job_id} has failed: {what}")


class JobWasCancelled(NoResult):
    """The awaited job was cancelled. Not JobCancelled, which would cancel the job that waits."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(f"Job {job_id} was cancelled.")


class JobGone(NoResult):
    """The row of the awaited job was removed, and what it came to with it."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(
            f"Job {job_id} is not in the table: it was removed, or its dispatch was rolled "
            "back. Where RETENTION is 0 a job is removed with its result as it ends."
        )


class WaitTimeout(LeaseQueueError, TimeoutError):
    """The time to wait is over; the jobs go on. `waiting_for`: which, `timeout`: seconds."""

    def __init__(self, waiting_for: Any, timeout: float | None) -> None:
        self.waiting_for, self.timeout = waiting_for, timeout
        super().__init__(f"Not ended within {timeout:g} s: {waiting_for}.")


class WaitInTransaction(LeaseQueueError):
    """A wait in a transaction, which might never end, and would keep its locks meanwhile."""

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"This would wait inside a transaction on {database!r}. A job that was dispatched "
            "in it can't run before the commit, and what happens to others may not be seen. "
            "Wait after the commit, outside of atomic() and ATOMIC_REQUESTS. In a "
            "TestCase, let run_jobs() of django_leasequeue.testing run the job first, and "
            "read its result from the row."
        )


class JobRunAborted(LeaseQueueError):
    """Raised inside a task by `context.check()`: this run no longer counts.

    The lease was lost, so another worker may run the job already, and whatever this run
    yields is discarded. Stop without further side effects.
    """

    def __init__(self, job_id: int, why: str) -> None:
        self.job_id, self.why = job_id, why
        super().__init__(
            f"The run of job {job_id} must stop: {why}. Its outcome is discarded."
        )


class JobCancelled(LeaseQueueError):
    """Raised inside a task by `context.check()`: somebody asked for the job to be cancelled.

    Let it pass, or clean up and raise it again: then the job ends as cancelled.
    """

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(f"Job {job_id} is to be cancelled.")


class JobTimeout(LeaseQueueError):
    """Raised inside a task, at whatever line it is, once its run has taken its `timeout`.

    Clean up and let it pass: the run has timed out, whatever it does from then on.
    `timeout`: seconds, None in the task itself. `killed_after`: the seconds after which the
    run's process was killed, since it went on; None if it did not.
    """

    def __init__(self, timeout: float | None = None, killed_after: Any = None) -> None:
        self.timeout, self.killed_after = timeout, killed_after
        limit = "" if timeout is None else f" of {timeout:g} s"
        message = f"The run took longer than its timeout{limit}."
        if killed_after is not None:
            after = f"{killed_after:.1f} s"
            message += f" It did not stop, so its process was killed after {after}."
        super().__init__(message)


class StepRefused(LeaseQueueError):
    """Raised by `context.step()` for a step that can't be recorded here, before it runs.

    Its name is used already in this run; the task is atomic, or a transaction is open; or
    the process is a fork of the worker's.
    """

    def __init__(self, job_id: int, name: str, why: str) -> None:
        self.job_id, self.name, self.why = job_id, name, why
        super().__init__(f"Step {name!r} of job {job_id} is refused: {why}.")


class UnsupportedResult(LeaseQueueError, TypeError):
    """Recorded on a job of a task of django.tasks that returned what is not JSON.

    It is not run again, whatever attempts are left: it would return the same.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"The task returned what can't be stored. {why}")


class WorkersLost(LeaseQueueError):
    """Recorded on a job whose workers died or vanished too often while running it."""


class TransactionLeftOpen(LeaseQueueError):
    """Recorded on a job whose task returned with a database transaction still open."""


class Retry(LeaseQueueError):
    """Raise it in a task to run the job again later; counts as an attempt.

    `delay`: seconds or a timedelta; None takes the task's backoff. `reason` is kept in the
    job's errors. Once the attempts are used up, the job fails.
    """

    def __init__(self, delay: Any = None, reason: str = "") -> None:
        self.delay, self.reason = delay, reason
        super().__init__(reason or "The task asked to be run again.")


class Discard(LeaseQueueError):
    """Raise it in a task to fail the job now, whatever attempts are left."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "The task gave up for good.")


class Snooze(LeaseQueueError):
    """Raise it in a task to run the job later; counts no attempt.

    `delay`: seconds or a timedelta.
    """

    def __init__(self, delay: Any) -> None:
        self.delay = delay
        super().__init__("The task asked to be run later.")
