"""What follows from a verdict: the line in the log, the signal, and the word to count."""

from django_leasequeue.outcomes import Outcome
from django_leasequeue.transitions.settle import Settled, Verdict
from django_leasequeue.worker import events, told
from django_leasequeue.worker.log import about, logger
from django_leasequeue.worker.running import Run


def conclude(run: Run, outcome: Outcome, result: Settled) -> str:
    """Tell everybody how a run ended whose outcome was written or refused. Never raises."""
    try:
        return _conclude(run, outcome, result)
    except BaseException as error:  # a receiver may raise even SystemExit
        job = run.job
        logger.error(
            "Job %s (%s): telling how its run ended failed; its row is as it should be.",
            job.id,
            job.task,
            exc_info=error,
            extra=about(job),
        )
    return told.word_for(outcome) if _is_written(result) else told.LOST


def _conclude(run: Run, outcome: Outcome, result: Settled) -> str:
    if _is_written(result):
        told.log_outcome(run.job, outcome, run.ended_at - run.started_at)
        events.settled(run.job, outcome)
        return told.word_for(outcome)
    run.context.lose(result.why)
    told.log_lost(run, outcome, result.holder, result.why)
    return told.LOST


def _is_written(result: Settled) -> bool:
    return result.verdict is Verdict.WRITTEN
