"""What follows from a verdict: the line in the log, the signal, and the word to count."""

from django_leasequeue.outcomes import Outcome
from django_leasequeue.transitions.settle import Settled, Verdict
from django_leasequeue.worker import events, told
from django_leasequeue.worker.running import Run


def conclude(run: Run, outcome: Outcome, result: Settled) -> str:
    """Tell everybody how a run ended whose outcome was written or refused."""
    if result.verdict is Verdict.WRITTEN:
        told.log_outcome(run, outcome)
        events.settled(run.job, outcome)
        return told.word_for(outcome)
    told.log_lost(run, outcome, result.holder, result.why)
    run.context.lose(result.why)
    return told.LOST
