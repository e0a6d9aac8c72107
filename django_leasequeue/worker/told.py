"""How an outcome is told: the word for counts, and the line in the log."""

import logging
from typing import assert_never

from django_leasequeue.claimed import Claimed
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Outcome,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.worker.log import about, logger
from django_leasequeue.worker.running import Run

SUCCEEDED = "succeeded"
FAILED = "failed"
RETRIED = "to be retried"
SNOOZED = "snoozed"
CANCELLED = "cancelled"
RELEASED = "given back"
# Its outcome could not be stored, since the job was no longer this worker's.
LOST = "lost"
WORDS = (SUCCEEDED, FAILED, RETRIED, SNOOZED, CANCELLED, RELEASED, LOST)


def word_for(outcome: Outcome) -> str:
    """Return the word under which an outcome is counted."""
    match outcome:
        case Succeeded():
            return SUCCEEDED
        case Failed():
            return FAILED
        case RetryLater():
            return RETRIED
        case Snoozed():
            return SNOOZED
        case Cancelled():
            return CANCELLED
        case Released():
            return RELEASED
        case _:
            assert_never(outcome)


def log_start(run: Run) -> None:
    """Write the line for a job whose task is about to be called."""
    job = run.job
    logger.info("Job %s (%s) starts", job.id, job.task, extra=about(job))


def log_outcome(job: Claimed, outcome: Outcome, seconds: float) -> None:
    """Write the line for an outcome that is stored, of a run that took so long."""
    word = word_for(outcome)
    level, more = logging.INFO, ""
    match outcome:
        case Failed(error):
            level, more = logging.ERROR, f": {_brief(error)}"
        case RetryLater(delay, error):
            level = logging.WARNING
            more = f", in {delay.total_seconds():.1f} s: {_brief(error)}"
        case Snoozed(delay):
            more = f", for {delay.total_seconds():.1f} s"
        case _:
            pass
    logger.log(
        level,
        "Job %s (%s) %s after %.3f s%s",
        job.id,
        job.task,
        "is to be retried" if word == RETRIED else word,
        seconds,
        more,
        extra=about(job, outcome=word, seconds=seconds, attempt=job.attempts + 1),
    )


def log_lost(run: Run, outcome: Outcome, holder: str | None, why: str) -> None:
    """Write the line for an outcome that was refused because the lease is another's."""
    job = run.job
    logger.warning(
        "Job %s (%s): this run %s, but its outcome is discarded, since %s. %s ran it; the "
        "row is left as %s has it.",
        job.id,
        job.task,
        word_for(outcome),
        why,
        job.worker,
        holder or "nobody",
        extra=about(job, outcome=LOST, holder=holder),
    )


def log_refused(run: Run, outcome: Outcome, error: Exception) -> None:
    """Write the line for an outcome of which only the plainest form could be stored."""
    job, word = run.job, word_for(outcome)
    logger.warning(
        "Job %s (%s) %s, but the database refuses the details: %s. It is stored without "
        "them.",
        job.id,
        job.task,
        word,
        error,
        exc_info=error,
        extra=about(job, outcome=word),
    )


def _brief(error: dict[str, object]) -> str:
    lines = str(error.get("message", "")).splitlines()
    text = f"{error.get('exception_class', '')}: {lines[0] if lines else ''}"
    return text if len(text) <= 300 else f"{text[:300]}…"
