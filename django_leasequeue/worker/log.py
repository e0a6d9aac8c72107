"""The worker's log: one line for each change of state, with the facts in `extra`."""

import contextlib
import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, assert_never

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

# The words under which runs are counted by how they ended.
SUCCEEDED = "succeeded"
FAILED = "failed"
RETRIED = "to be retried"
SNOOZED = "snoozed"
CANCELLED = "cancelled"
RELEASED = "given back"
# Its outcome could not be stored, since the job was no longer this worker's.
LOST = "lost"
WORDS = (SUCCEEDED, FAILED, RETRIED, SNOOZED, CANCELLED, RELEASED, LOST)


class _SafeLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose handlers may fail: a line that can't be written must not cost a job.

    logging keeps the errors of its own handlers to itself; others, such as one that writes
    into a database, may raise into whoever logs.
    """

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """See Logger.log()."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception as error:
            with contextlib.suppress(Exception):
                print(f"A line of the log is lost: {error!r}", file=sys.stderr)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Leave `extra` as it is given."""
        return msg, kwargs


# At which outcomes are logged, if not as information.
_LEVELS: dict[type, int] = {Failed: logging.ERROR, RetryLater: logging.WARNING}

logger = _SafeLogger(logging.getLogger("django_leasequeue.worker"))


def about(job: Claimed, **more: Any) -> dict[str, Any]:
    """Return the `extra` of a line about one job."""
    return {
        "job_id": job.id,
        "task": job.task,
        "queue": job.queue,
        "worker": job.worker,
        **more,
    }


def configure(verbosity: int) -> Callable[[], None]:
    """Write the package's log to stderr if the project has not said where it goes.

    `verbosity`: 0 shows warnings, 1 each change of state, 2 and above everything. Returns
    what undoes it.
    """
    package = logging.getLogger("django_leasequeue")
    if package.hasHandlers():
        return lambda: None
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s [%(process)d] %(message)s")
    )
    package.addHandler(handler)
    levels, level = {0: logging.WARNING, 1: logging.INFO}, package.level
    package.setLevel(levels.get(verbosity, logging.DEBUG))

    def undo() -> None:
        package.removeHandler(handler)
        package.setLevel(level)

    return undo


def counted(number: int, one: str, many: str = "") -> str:
    """Return "1 job" or "2 jobs"; `many`: the plural, `one` and an s unless given."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


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


def log_start(job: Claimed) -> None:
    """Write the line for a job whose task is about to be called."""
    if not logger.isEnabledFor(logging.INFO):
        return
    logger.info("Job %s (%s) starts", job.id, job.task, extra=about(job))


def log_outcome(job: Claimed, outcome: Outcome, seconds: float) -> None:
    """Write the line for an outcome that is stored, of a run that took so long."""
    level = _LEVELS.get(type(outcome), logging.INFO)
    if not logger.isEnabledFor(level):
        return
    word, more = word_for(outcome), ""
    match outcome:
        case Failed(error):
            more = f": {_brief(job, error)}"
        case RetryLater(delay, error):
            more = f", in {delay.total_seconds():.1f} s: {_brief(job, error)}"
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


def log_lost(job: Claimed, outcome: Outcome, holder: str | None, why: str) -> None:
    """Write the line for an outcome that was refused because the lease is another's."""
    logger.warning(
        'Job %s (%s): this run ended as "%s", but its outcome is discarded, since %s. '
        "%s ran it; the row is left as %s has it.",
        job.id,
        job.task,
        word_for(outcome),
        why,
        job.worker,
        holder or "nobody",
        extra=about(job, outcome=LOST, holder=holder),
    )


def log_refused(job: Claimed, outcome: Outcome, error: Exception) -> None:
    """Write the line for an outcome of which only the plainest form could be stored."""
    word = word_for(outcome)
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


def _brief(job: Claimed, error: dict[str, object]) -> str:
    lines = str(error.get("message", "")).splitlines()
    text = f"{error.get('exception_class', '')}: {lines[0] if lines else ''}"
    text = text if len(text) <= 300 else f"{text[:300]}…"
    if error.get("traceback"):
        text += f" (traceback: manage.py jobs show {job.id})"
    return text
