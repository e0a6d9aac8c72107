"""`atomic=True`: the task's writes and the job's success commit together, or neither.

The task and its settle run in one transaction on the job's alias, at READ COMMITTED: under
a snapshot the settle would fail, since the row has been renewed since the task began.
Anything but a success rolls the task's writes back, Snooze and Retry included, and is
settled afterwards like any other outcome.
"""

import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from django.db import Error, transaction

from django_leasequeue import db, errors, origin
from django_leasequeue.claimed import Claimed
from django_leasequeue.db.transactions import read_committed
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Outcome, Released, RetryLater, Succeeded
from django_leasequeue.payloads.tracebacks import message_of
from django_leasequeue.transitions.settle import Settled, Verdict
from django_leasequeue.worker import connections, endings, forks
from django_leasequeue.worker.call import Call, prepare
from django_leasequeue.worker.context import JobContext
from django_leasequeue.worker.hiding import to_be_logged, without_hidden
from django_leasequeue.worker.log import about, logger
from django_leasequeue.worker.middleware import Around, around
from django_leasequeue.worker.runner import perform_within, unexpected

# How often in a row a success may be undone by others before it counts as a failed attempt.
_UNDONE_TIMES = 10
_UNDONE_DELAY = 2.0
_LONGEST_PAUSE = 0.5


class Ended(NamedTuple):
    """How an atomic run ended.

    `settled`: None: the outcome is still to be settled, as that of any run. WRITTEN: it is
    stored. LOST: nothing is stored, the task's writes neither, and nothing is to be.
    """

    outcome: Outcome
    settled: Settled | None


def run_and_settle(
    job: Claimed,
    context: JobContext,
    *,
    using: str,
    settle: Callable[[Claimed, Outcome], Settled],
    begin: Callable[[], None] | None = None,
) -> Ended:
    """Run the job of an atomic task, and settle its success in the same transaction.

    `using`: the alias the job was claimed on. `settle(job, outcome)` writes one outcome on
    that alias, in this thread, and may raise the database's errors. `begin`: see runner.run.
    Never raises.
    """
    try:
        call = prepare(job, context)
        if not isinstance(call, Call):
            return Ended(call, None)
        if begin is not None:
            begin()
        # Outside of the transaction, which an error in it could break.
        with around(job, context) as within, connections.JobConnections() as mine:
            ended = _Attempt(job, context, call, within, using, settle).run()
            if context.limit.is_exceeded:
                mine.distrust()
            return ended
    except Exception as error:
        return Ended(unexpected(job, error), None)


class _RollBack(Exception):
    """Leaves the atomic block with nothing committed."""


class _Attempt:
    """One run of an atomic task, up to its commit."""

    def __init__(
        self,
        job: Claimed,
        context: JobContext,
        call: Call,
        within: Around,
        using: str,
        settle: Callable[[Claimed, Outcome], Settled],
    ) -> None:
        self.job, self.context, self.call = job, context, call
        self.within = within
        self.using, self.settle = using, settle
        self.outcome: Outcome = Released()  # until the task has been called
        self.settled: Settled | None = None
        self.committed = False

    def run(self) -> Ended:
        try:
            # Callbacks that the task gave to on_commit() may fork, too.
            with (
                forks.Original(),
                origin.dispatched_by(origin.of_job(self.job.id)),
                read_committed(self.using),
            ):
                self._work()
        except _RollBack:
            pass
        except BaseException as error:  # a callback may raise even SystemExit
            self._failed(error)
        return Ended(self.outcome, self.settled)

    def _work(self) -> None:
        # First in the row, so that it tells a failed commit from a failed callback.
        transaction.on_commit(self._note_commit, using=self.using)
        self.outcome = perform_within(self.within, self.job, self.context, self.call)
        if isinstance(self.outcome, Succeeded):
            self.settled = self._settle()
            if self.settled.verdict is Verdict.WRITTEN:
                return
        raise _RollBack

    def _note_commit(self) -> None:
        self.committed = True

    def _settle(self) -> Settled:
        pause = 0.01
        while True:
            settled = self.settle(self.job, self.outcome)
            if settled.verdict is not Verdict.BUSY:
                return settled
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _failed(self, error: BaseException) -> None:
        """The begin, the settle, the commit or a callback after it raised."""
        if self.settled and not self.committed and self._came_through(error):
            self.settled = Settled(Verdict.WRITTEN)
        elif self.committed:
            logger.error(
                "Job %s (%s) succeeded, but a callback that it gave to on_commit() raised "
                "after the commit: %s. Further callbacks were not called.",
                self.job.id,
                self.job.task,
                without_hidden(self.job)(message_of(error)),
                exc_info=to_be_logged(self.job, error),
                extra=about(self.job),
            )
        else:
            self.settled = None
            self.outcome = self._undone(error)

    def _came_through(self, error: BaseException) -> bool:
        """Whether a commit was done of which only the answer was lost."""
        connection = transaction.get_connection(self.using)
        if not db.is_connection_lost(error, connection):
            return False
        job = self.job
        mine = Job.objects.using(self.using).filter(
            pk=job.id, claims=job.claims, last_token=job.token
        )
        try:
            return mine.exists()
        except Error:
            # The database is away. The failure that is settled once it is back is taken
            # for written if the row has an outcome by then.
            return False

    def _undone(self, error: BaseException) -> Outcome:
        connection = transaction.get_connection(self.using)
        means = (db.is_passing_trouble, db.is_connection_lost, db.is_unwritable)
        if any(holds(error, connection) for holds in means):
            # Neither the task nor its data is at fault, and nothing of the run is left.
            entry = errors.repeatable(endings.entry(self.job, error), self.job.round)
            if errors.times_in_a_row(self.job.errors, entry) < _UNDONE_TIMES:
                wait = timedelta(seconds=random.uniform(0, _UNDONE_DELAY))
                return RetryLater(wait, entry, counted=False)
        return endings.failure(self.job, self.call.task, error)
