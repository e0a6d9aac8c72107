"""One job of a given id: claimed, run in this process and settled like any other."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor, wait
from operator import index
from typing import Any
from uuid import UUID

from django.db import Error, connections, router
from django.db.models import BooleanField, Case, QuerySet, Value, When

from django_leasequeue import clock, db, slots
from django_leasequeue.claimed import new_token
from django_leasequeue.conf import conf
from django_leasequeue.exceptions import JobNotRunnable
from django_leasequeue.models import Job
from django_leasequeue.states import AWAITS_GROUP, AWAITS_SLOT, Status
from django_leasequeue.times import local_time
from django_leasequeue.transitions.claim import Claim
from django_leasequeue.worker.bounded import Bounded
from django_leasequeue.worker.inprocess import InProcess
from django_leasequeue.worker.leases import Leases
from django_leasequeue.worker.log import RELEASED, WORDS
from django_leasequeue.worker.loop import Loop
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.progress import Progress
from django_leasequeue.worker.readiness import IN_TRANSACTION
from django_leasequeue.worker.stop import Level, Stop

# Seconds for which a row that somebody else has locked is asked for again.
_PATIENCE = 2.0
_PAUSE = 0.05
# Seconds after which a signal is heard that did not end the wait for the job.
_LOOK_EVERY = 0.5


class Single(InProcess):
    """A worker that runs the job `options.job` and ends."""

    def __init__(self, options: WorkerOptions) -> None:
        self.progress = Progress()
        # It takes no other job, so it is no worker that anybody could wait for.
        super().__init__(options, self.progress, shown=False)
        self._claimer = OneClaim(options, self.name, self, self.stop)

    def run(self) -> int:
        """Run the job; return how many jobs and callbacks still ran at the end.

        Raises JobNotRunnable, or the database's error if it does not let it be claimed.
        """
        left = super().run()
        if self._claimer.problem is not None:
            raise self._claimer.problem
        return left

    def claimer(self) -> "OneClaim":
        """See InProcess."""
        return self._claimer

    def work(self, loop: Loop) -> int:
        """See InProcess. In a thread of its own: the caller keeps its connections."""
        with ThreadPoolExecutor(1, "leasequeue-loop") as own:
            running = own.submit(loop.run)
            # Handlers of signals are called between two steps of this thread alone.
            while not wait([running], _LOOK_EVERY).done:
                pass
            return running.result()

    @property
    def word(self) -> str:
        """How the run has ended: see `log`."""
        ended = [word for word in WORDS if self.progress.counts[word]]
        return ended[0] if ended else RELEASED


class OneClaim:
    """Claims the one job, or asks for the worker's stop and knows the `problem`."""

    def __init__(
        self, options: WorkerOptions, worker: str, leases: Leases, stop: Stop
    ) -> None:
        self._options, self._worker = options, worker
        self._leases, self._stop = leases, stop
        self.problem: Exception | None = None

    def claim(self, limit: int, alone: bool = False) -> Claim | None:
        """See claimer.Claims."""
        token = new_token()
        self._leases.announce(token)
        try:
            with Bounded(self._options.database):
                claim = self._claimed(token)
        except Exception as error:
            self.problem = error
            if isinstance(error, Error):
                self._take_back(token)
            self._leases.claimed(token, [])
            self._stop.request(Level.GRACEFUL, "the job could not be claimed")
            return None
        self._leases.claimed(token, claim.jobs)
        return claim

    def close(self) -> None:
        """See claimer.Claims."""

    def _claimed(self, token: UUID) -> Claim:
        assert self._options.job is not None
        jobs, ends = Job.objects.using(self._options.database), clock.now() + _PATIENCE
        while True:
            job = jobs.claim_job(self._options.job, token, self._worker)
            if job is not None:
                return Claim([job], None)
            row = _with_lease(jobs.filter(pk=self._options.job)).first()
            if row is None or row.status != Status.PENDING or _is_kept_back(row):
                break
            if clock.now() >= ends:
                break
            time.sleep(_PAUSE)
        raise JobNotRunnable(self._options.job, _why_not(row, self._options.database))

    def _take_back(self, token: UUID) -> None:
        """Give back what a claim may have taken whose answer was lost."""
        # Else its lease ends by itself.
        with contextlib.suppress(Exception), Bounded(self._options.database):
            Job.objects.using(self._options.database).release(token)


def run(job_id: int, using: str | None) -> str:
    """See jobs.run_job."""
    if isinstance(job_id, bool) or not hasattr(job_id, "__index__"):
        kind = type(job_id).__name__
        raise TypeError(f"job_id must be an int, such as job.pk, not {kind}.")
    job_id = index(job_id)
    database = using or router.db_for_write(Job)
    if db.in_transaction(connections[database]):
        raise RuntimeError(f"run_job() {IN_TRANSACTION}")
    single = Single(one_job(job_id, database, conf.shutdown_timeout))
    single.run()
    return single.word


def one_job(job_id: int, database: str, shutdown_timeout: float) -> WorkerOptions:
    """Return the options of a worker for this job alone."""
    return WorkerOptions(
        queues="*",
        exclude="",
        database=database,
        processes=1,
        threads=1,
        async_tasks=1,
        shutdown_timeout=shutdown_timeout,
        stop_after=1,
        job=job_id,
    )


def _with_lease(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Jobs that know whether their lease is past, by the database's clock."""
    return jobs.annotate(
        is_expired=Case(
            When(processing_until__lte=db.DatabaseNow(), then=Value(True)),
            default=Value(False),
            output_field=BooleanField(),
        )
    )


def _why_not(row: Any, database: str) -> str:
    if row is None:
        return f"there is none in database {database!r}"
    if row.status == Status.RUNNING:
        until = local_time(row.processing_until)
        if row.is_expired:
            return (
                f"{row.worker} had it, on a lease that ended at {until}; the next worker "
                "that looks recovers it"
            )
        return f"{row.worker} has it, on a lease until {until}"
    if row.status != Status.PENDING:
        return f"it has ended: {row.status}, {local_time(row.finished_at)}"
    if row.blocked == AWAITS_GROUP:
        return f"jobs of the group {row.after_group!r} wait or run"
    if holders := _holders_before(row):
        ids = ", ".join(map(str, holders))
        return (
            f"of its concurrency key {row.concurrency_key!r} at most "
            f"{row.concurrency_limit} may run at a time, and it is the turn of job {ids}"
        )
    if _is_kept_back(row):
        return "it waits for others to end"
    return "somebody has its row locked, such as a transaction that is not committed"


def _is_kept_back(row: Any) -> bool:
    """Whether something else keeps it from being claimed than a lock that will go."""
    return row.blocked not in (0, AWAITS_SLOT) or bool(_holders_before(row))


def _holders_before(row: Any) -> list[int]:
    """Return the jobs that have the slots of its key, if there are no more."""
    if row.concurrency_key is None:
        return []
    jobs: QuerySet[Job] = QuerySet(Job, using=row._state.db)
    holders = slots.holders(jobs, row.concurrency_key)
    return holders if len(holders) >= (row.concurrency_limit or 1) else []
