"""How a run ended, as the outcome that settle writes: what its task returned or raised.

What an exception means, by the first line that fits:

- JobRunAborted once the lease is lost: the run no longer counts. Its outcome is Released,
  which settle refuses, or which gives the job back if the lease was still ours after all.
- JobCancelled once a cancel was asked for: the job ends as cancelled.
- Anything, a value included, after the task's timeout: an attempt; the job runs again
  after its backoff, while attempts are left and unless `on_timeout` is "fail".
- Snooze: the job runs again later, no attempt counted.
- Retry: an attempt; the job runs again after its delay, while attempts are left.
- Discard, UnsupportedResult, or a class in `discard_on`: the job fails, whatever attempts are left.
- With a `retry_on` that is not empty, any other class than those in it: the job fails too.
- Everything else, SystemExit (whatever its code) and KeyboardInterrupt among it: an
  attempt; the job runs again after its backoff, while attempts are left.
"""

from datetime import timedelta
from typing import Any

from django_leasequeue import durations, errors
from django_leasequeue.backoff import Exponential, delay_after
from django_leasequeue.claimed import Claimed
from django_leasequeue.conf import conf
from django_leasequeue.exceptions import (
    Discard,
    JobCancelled,
    JobRunAborted,
    JobTimeout,
    Retry,
    Snooze,
    TransactionLeftOpen,
    UnknownTask,
    UnsupportedResult,
    WorkersLost,
)
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.payloads import describe_error, try_dump_result
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.hiding import without_hidden
from django_leasequeue.worker.log import about, counted, logger

# A deploy puts the new code everywhere within five minutes, or something else is wrong.
UNKNOWN_TASK_DELAY = timedelta(seconds=30)
UNKNOWN_TASK_TIMES = 10

_NOTHING = Succeeded("null")


def returned(
    job: Claimed, task: TaskOptions, context: JobContext, value: Any
) -> Outcome:
    """The task returned `value`, which after its timeout comes too late."""
    if context.limit.is_exceeded:
        return timed_out(job, task, None)
    return success(job, value)


def success(job: Claimed, value: Any) -> Succeeded:
    """The task returned. A value that is not JSON is dropped, with a warning."""
    if value is None:
        return _NOTHING
    text, problem = try_dump_result(value, conf.max_result_bytes)
    if problem is not None:
        logger.warning(
            "Job %s (%s) succeeds without a result. %s",
            job.id,
            job.task,
            problem,
            extra=about(job, problem=problem),
        )
    return Succeeded(text)


def raised(
    job: Claimed, task: TaskOptions, context: JobContext, error: BaseException
) -> Outcome:
    """The task raised `error`; see the module for what that means."""
    match error:
        case JobRunAborted() if context.lease_lost:
            return Released(lost=True)
        case JobCancelled() if context.cancel_requested:
            return Cancelled()
        case _ if context.limit.is_exceeded:
            return timed_out(job, task, error)
        case Snooze(delay=delay):
            return snoozed(job, task, delay)
        case Retry(delay=None):
            return failure(job, task, error)
        case Retry(delay=delay):
            return retry(job, task, error, delay)
        case Discard() | UnsupportedResult():
            return Failed(entry(job, error))
    if isinstance(error, task.discard_on):
        return Failed(entry(job, error))
    if task.retry_on and not isinstance(error, task.retry_on):
        return Failed(entry(job, error))
    return failure(job, task, error)


def failure(job: Claimed, task: TaskOptions | None, error: BaseException) -> Outcome:
    """An attempt failed: again after the backoff, or failed for good if it was the last."""
    if _is_last(job):
        return Failed(entry(job, error))
    return RetryLater(_backoff(job, task), entry(job, error))


def timed_out(job: Claimed, task: TaskOptions, error: BaseException | None) -> Outcome:
    """The run took longer than its timeout. `error`: what the task raised in the end."""
    told = JobTimeout(task.timeout)
    if isinstance(error, JobTimeout):
        # The one that was raised in the task: its traceback says where that was.
        told.with_traceback(error.__traceback__)
        error = error.__cause__ or error.__context__
    told.__cause__ = error
    wait = wait_after_timeout(job, task)
    if wait is None:
        return Failed(entry(job, told))
    return RetryLater(wait, entry(job, told))


def wait_after_timeout(job: Claimed, task: TaskOptions) -> timedelta | None:
    """Return when the job is to run again if this run takes too long; None if never."""
    if task.on_timeout == "fail" or _is_last(job):
        return None
    return _backoff(job, task)


def retry(job: Claimed, task: TaskOptions, error: BaseException, delay: Any) -> Outcome:
    """The task asked to be run again after `delay`, which it chose itself."""
    if _is_last(job):
        return Failed(entry(job, error))
    try:
        wait = durations.seconds(delay, what="The delay of Retry")
    except (TypeError, ValueError) as wrong:
        return failure(job, task, wrong)
    return RetryLater(timedelta(seconds=wait), entry(job, error))


def snoozed(job: Claimed, task: TaskOptions, delay: Any) -> Outcome:
    """The task asked to be run later; a delay that is none makes it a failed attempt."""
    try:
        wait = durations.seconds(delay, what="The delay of Snooze")
    except (TypeError, ValueError) as wrong:
        return failure(job, task, wrong)
    return Snoozed(timedelta(seconds=wait))


def left_open(
    job: Claimed, task: TaskOptions, outcome: Outcome, aliases: list[str]
) -> Outcome:
    """The task left a transaction open on `aliases`: what it wrote there is gone.

    So a success becomes a failed attempt; any other outcome stays, with a warning.
    """
    where = ", ".join(aliases)
    if isinstance(outcome, Succeeded):
        error = TransactionLeftOpen(
            f"The task returned with a transaction open on {where}. It was rolled back, so "
            "what the task wrote in it is lost. Use transaction.atomic() as a context "
            "manager or decorator, or commit before the task returns."
        )
        return failure(job, task, error)
    logger.warning(
        "Job %s (%s) also left a transaction open on %s. It was rolled back.",
        job.id,
        job.task,
        where,
        extra=about(job, databases=aliases),
    )
    return outcome


def unknown_task(job: Claimed, error: UnknownTask) -> Outcome:
    """This process has no such task: another may have it, or will after its deploy."""
    described = errors.repeatable(entry(job, error), job.round)
    described["message"] += (
        " A worker goes on with the code that it started with: restart it after a deploy."
    )
    if errors.times_in_a_row(job.errors, described) < UNKNOWN_TASK_TIMES:
        return RetryLater(UNKNOWN_TASK_DELAY, described, counted=False)
    return Failed(described, counted=False)


def workers_lost(job: Claimed, limit: int) -> Failed:
    """The job was running in too many workers that died: it is not run again."""
    lost = counted(
        job.recoveries,
        "worker was lost while it ran",
        "workers were lost while they ran",
    )
    error = WorkersLost(
        f"{lost} this job, {job.lost_alone} of them while they ran nothing else; "
        f"MAX_RECOVERIES allows {limit}. It was not run again. Such a task crashes its "
        "process, uses up "
        "its memory, or calls os._exit(); each loss that was seen stands among the errors. "
        "Mend the task, then run it again: job.retry()."
    )
    return Failed(entry(job, error), counted=False)


def entry(job: Claimed, error: BaseException) -> errors.Entry:
    """Return the error as an entry of the job's errors, without what its task hides."""
    return describe_error(
        error,
        attempt=job.attempts + 1,
        worker=job.worker,
        at=job.database_time(),
        cleaned=without_hidden(job),
        started_at=job.claimed_at,
    )


def _is_last(job: Claimed) -> bool:
    return job.attempts + 1 >= job.max_attempts


def _backoff(job: Claimed, task: TaskOptions | None) -> timedelta:
    try:
        backoff = task.backoff if task else None
        return delay_after(backoff or conf.backoff(job.queue), job.attempts + 1)
    except Exception as error:
        logger.warning(
            "Job %s (%s) waits by the default backoff. %s",
            job.id,
            job.task,
            error,
            exc_info=error,
            extra=about(job),
        )
        return delay_after(Exponential(), job.attempts + 1)
