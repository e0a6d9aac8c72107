"""Writing a group of outcomes, and what to do with those that were not written."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from django.db import DataError, Error, IntegrityError

from django_leasequeue import clock
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Failed, Outcome, RetryLater, Succeeded
from django_leasequeue.transitions.settle import Settled, Verdict
from django_leasequeue.worker import events
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.log import log_refused
from django_leasequeue.worker.outage import Outage
from django_leasequeue.worker.running import Run

_FIRST_BUSY_PAUSE = 0.02
_LONGEST_BUSY_PAUSE = 1.0
# Failures right before the server answers again, after which an outcome itself is suspected
# though the error says nothing of the kind: MySQL closes the connection on a packet that it
# finds too large. An outage is the server's, however often it comes.
_SUSPICIOUS = 3
_NOT_STORED = (
    "The details of this error could not be stored; the worker's log says why."
)


@dataclass(slots=True, eq=False)
class Entry:
    """An outcome on its way into its row."""

    run: Run
    outcome: Outcome
    # By `clock.now()`.
    not_before: float = 0.0
    found_busy: int = 0
    failures: int = 0


class Writer:
    """Writes outcomes for one thread.

    `later` gets the entries to be tried again, with `not_before` set; `settled` the runs
    that are done with, each with the word that it is counted under.
    """

    def __init__(
        self,
        database: str,
        later: Callable[[list[Entry]], None],
        settled: Callable[[list[tuple[Run, str]]], None],
    ) -> None:
        self._bounded = Bounded(database)
        self._database, self._later, self._settled = database, later, settled
        self._outage = Outage("store the outcomes of jobs", database)

    def write(self, entries: list[Entry]) -> None:
        """Write a group. Raises nothing that concerns the database or an outcome."""
        pairs = [(entry.run.job, entry.outcome) for entry in entries]
        try:
            with self._bounded:
                results = Job.objects.using(self._database).settle(pairs)
        except Exception as error:
            self._failed(entries, error)
            return
        self._outage.worked()
        self._judge(zip(entries, results, strict=True))

    def _judge(self, results: Iterable[tuple[Entry, Settled]]) -> None:
        done = []
        for entry, result in results:
            if result.verdict is Verdict.BUSY:
                pause = _FIRST_BUSY_PAUSE * 2 ** min(entry.found_busy, 10)
                entry.found_busy += 1
                self._postpone([entry], min(pause, _LONGEST_BUSY_PAUSE))
            else:
                word = events.run_ended(entry.run, entry.outcome, result)
                done.append((entry.run, word))
        if done:
            self._settled(done)

    def _failed(self, entries: list[Entry], error: Exception) -> None:
        if self._passes(entries, error):
            self._postpone(entries, self._outage.failed(error))
        elif len(entries) > 1:
            # One of them is at fault, and the others must not suffer.
            for entry in entries:
                self.write([entry])
        else:
            self._refused(entries[0], error)

    def _passes(self, entries: list[Entry], error: Exception) -> bool:
        """Whether the database, not one of the outcomes, is the likely cause."""
        if not isinstance(error, Error):
            return False
        if isinstance(error, (DataError, IntegrityError)):
            return False
        if self._bounded.is_away(error):
            return True
        for entry in entries:
            entry.failures += 1
        if min(entry.failures for entry in entries) < _SUSPICIOUS:
            return True
        if len(entries) == 1:
            entries[0].failures = 0
        return False

    def _refused(self, entry: Entry, error: Exception) -> None:
        """Try the plainest form; what fails in that too is not the outcome's fault."""
        plainer = without_details(entry.outcome)
        if plainer is not None:
            jobs = Job.objects.using(self._database)
            try:
                with self._bounded:
                    [result] = jobs.settle([(entry.run.job, plainer)])
            except Exception as still:
                error = still
            else:
                self._outage.worked()
                if result.verdict is Verdict.WRITTEN:
                    log_refused(entry.run.job, entry.outcome, error)
                    entry.outcome = plainer
                self._judge([(entry, result)])
                return
        self._postpone([entry], self._outage.failed(error))

    def _postpone(self, entries: list[Entry], pause: float) -> None:
        for entry in entries:
            entry.not_before = clock.now() + pause
        self._later(entries)


def without_details(outcome: Outcome) -> Outcome | None:
    """Return the outcome without result or error texts; None if it is as plain already."""
    match outcome:
        case Succeeded(result) if result is not None:
            return Succeeded()
        case Failed(error) | RetryLater(error=error) if (
            error.get("message") != _NOT_STORED
        ):
            return replace(
                outcome, error=error | {"message": _NOT_STORED, "traceback": ""}
            )
        case _:
            return None
