"""The verbs of the queue and the adjectives of its rows, on `Job.objects`.

Each verb is one line; the room it leads to is in `transitions`.
"""

from collections import Counter
from functools import partial
from typing import NamedTuple
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import models, router

from django_leasequeue import db, registry, results, transitions
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.durations import Duration
from django_leasequeue.exceptions import WaitTimeout
from django_leasequeue.specs import JobSpec, prepare
from django_leasequeue.states import FINAL, Status


class Dispatch(NamedTuple):
    """What a dispatch returns: the new job, or the one that holds the id, and what was done."""

    job: models.Model
    outcome: DispatchOutcome

    @property
    def added(self) -> bool:
        """Whether a new job was made."""
        return self.outcome == DispatchOutcome.ADDED


class VerbQuerySet(models.QuerySet):
    """A queryset with verbs for the whole table."""

    def _rows(self):
        if self.query.where or self.query.is_sliced:
            raise TypeError(
                "This verb is for the whole table and would ignore the filter. Call it on "
                f"{self.model.__name__}.objects or {self.model.__name__}.objects.using(alias)."
            )
        # Every read of a verb goes where it writes: a replica may not have the row yet.
        alias = self._db or router.db_for_write(self.model)  # type: ignore[attr-defined]
        return models.QuerySet(self.model, using=alias)


class JobQuerySet(VerbQuerySet):
    """Jobs, and everything that is done with them. `using(alias)` chooses the database."""

    # --- Adjectives

    def pending(self):
        """Jobs that wait: for their time, a worker or their next attempt."""
        return self.filter(status=Status.PENDING)

    def due(self):
        """Pending jobs whose time has come."""
        return self.pending().filter(run_at__lte=db.DatabaseNow())

    def running(self):
        """Jobs held by a worker, whether its lease still lasts or not."""
        return self.filter(status=Status.RUNNING)

    def expired(self):
        """Running jobs whose lease is past: the next claim takes them."""
        return self.running().filter(processing_until__lte=db.DatabaseNow())

    def finished(self):
        """Jobs that have succeeded, failed for good or been cancelled."""
        return self.filter(status__in=sorted(FINAL))

    def group(self, label: str):
        """Jobs that were dispatched with this label."""
        return self.filter(group=label)

    def of_task(self, task):
        """Jobs of a task, under whatever names it has had. `task`: it, or one of its names."""
        options = registry.resolve(task)
        return self.filter(task__in=[options.name, *options.aliases])

    # --- Answers

    def counts(self) -> dict[Status, int]:
        """Return how many of these jobs are in each status, by status, 0 included."""
        self._refuse_combined()
        if self.query.is_sliced:
            numbers = Counter(status for _, status in self.values_list("pk", "status"))
        else:
            rows = self.order_by().values_list("status")
            numbers = Counter(dict(rows.annotate(number=models.Count("pk"))))
        return {status: numbers[status.value] for status in Status}

    def wait(self, timeout: Duration | None = None) -> dict[Status, int]:
        """Wait until none of these jobs waits or runs, and return their counts().

        `timeout`: seconds or a timedelta, for ever unless given. Asked anew at each look, so
        jobs that are added meanwhile are waited for; choose by what doesn't change, such as
        the group. Raises WaitTimeout, and WaitInTransaction unless all have ended already.
        """
        wait = self._wait(timeout)
        return self._waited(wait, wait.sync())

    wait.queryset_only = True  # type: ignore[attr-defined]

    async def await_all(self, timeout: Duration | None = None) -> dict[Status, int]:
        """See wait(). The event loop goes on meanwhile."""
        wait = self._wait(timeout)
        return await sync_to_async(self._waited)(wait, await wait.on_loop())

    await_all.queryset_only = True  # type: ignore[attr-defined]

    def _wait(self, timeout: Duration | None) -> results.Wait:
        self._refuse_combined()
        rows = self._everything()
        return results.Wait(
            partial(results.have_ended, self.using(rows.db), rows), timeout
        )

    def _waited(self, wait: results.Wait, over: bool) -> dict[Status, int]:
        numbers = self.using(self._everything().db).counts()
        if not over:
            left = numbers[Status.PENDING] + numbers[Status.RUNNING]
            raise WaitTimeout(f"{left} of {sum(numbers.values())} jobs", wait.timeout)
        return numbers

    # --- Verbs

    def dispatch(
        self,
        task,
        args=(),
        kwargs=None,
        *,
        queue=None,
        priority=None,
        delay=None,
        run_at=None,
        group=None,
        max_attempts=None,
        meta=None,
        dedup=None,
    ) -> Dispatch:
        """Store a job, or find the one that holds its dedup id. In the caller's transaction.

        `task`: a task, or its registered name. `args`, `kwargs`: JSON values that fit the
        function. `queue`, `priority` (-100 to 100, larger first), `max_attempts` (runs in
        all): the task's own unless given. `delay`: seconds or a timedelta from now, by the
        database's clock; or `run_at`: an aware datetime. `group`: a label. `meta`: a dict of
        the caller's own. `dedup`: an id or a Dedup.

        Returns (job, outcome). Raises TypeError or ValueError for arguments that don't fit,
        UnknownTask, UndiscoverableTask, DedupConflict if another task's job holds the id,
        DispatchConflict if the caller's transaction can't see who holds it.
        """
        spec = JobSpec(
            task,
            args,
            kwargs,
            queue,
            priority,
            delay,
            run_at,
            group,
            max_attempts,
            meta,
            dedup,
        )
        prepared = prepare(spec)
        rows = self._rows()
        with db.saying_what_to_migrate(rows):
            return Dispatch(*transitions.dispatch.dispatch(rows, prepared))

    async def adispatch(self, task, args=(), kwargs=None, **options) -> Dispatch:
        """See dispatch()."""
        return await sync_to_async(self.dispatch)(task, args, kwargs, **options)

    def dispatch_many(self, specs) -> list[Dispatch]:
        """Store many jobs in one transaction: all of them, or none if anything is raised.

        `specs`: JobSpec objects, or what `task.spec(...)` makes. Returns one Dispatch a spec,
        in order. Raises what dispatch() raises, naming the spec, before anything is written.
        """
        prepared = []
        for number, spec in enumerate(specs):
            try:
                prepared.append(prepare(spec))
            except Exception as error:
                error.add_note(
                    f"In spec {number} of dispatch_many; nothing was stored."
                )
                raise
        rows = self._rows()
        with db.saying_what_to_migrate(rows):
            done = transitions.dispatch.dispatch_many(rows, prepared)
        return [Dispatch(*pair) for pair in done]

    async def adispatch_many(self, specs) -> list[Dispatch]:
        """See dispatch_many()."""
        return await sync_to_async(self.dispatch_many)(specs)

    def cancel(self):
        """Cancel these jobs: pending ones at once, running ones as soon as they look.

        Returns a transitions.cancel.Cancellation: which were cancelled, asked, locked by
        somebody else, or had ended before. Only on a queryset, never on all jobs by mistake.
        """
        return transitions.cancel.cancel(*self._chosen())

    cancel.queryset_only = True  # type: ignore[attr-defined]

    async def acancel(self):
        """See cancel()."""
        return await sync_to_async(self.cancel)()

    acancel.queryset_only = True  # type: ignore[attr-defined]

    def retry(self):
        """Run these jobs again, those that have finished: each in a new round, due now.

        Attempts, steps, result and progress start anew, the errors stay. Returns a
        transitions.retry.Retrial: which were retried, and which not, and why. A job whose
        dedup id another job holds by now stays as it is. Only on a queryset.

        At most 500 jobs in a transaction, or all in the caller's: then their rows stay
        locked until that ends, and a rollback undoes the retry. Raises the database's error
        if passing trouble does not pass within 10 s.
        """
        return transitions.retry.retry(*self._chosen())

    retry.queryset_only = True  # type: ignore[attr-defined]

    async def aretry(self):
        """See retry()."""
        return await sync_to_async(self.retry)()

    aretry.queryset_only = True  # type: ignore[attr-defined]

    def claim(
        self,
        selection,
        limit: int,
        token: UUID,
        worker: str,
        *,
        expired: bool = True,
        since: float | None = None,
        alone: bool = False,
    ):
        """See transitions.claim.claim."""
        return transitions.claim.claim(
            self._rows(), selection, limit, token, worker, expired, since, alone
        )

    def claim_job(self, pk: int, token: UUID, worker: str):
        """See transitions.claim.claim_job."""
        return transitions.claim.claim_job(self._rows(), pk, token, worker)

    def cancel_requested(self, tokens: list[UUID]) -> dict[UUID, set[int]]:
        """See transitions.cancel.requested."""
        return transitions.cancel.requested(self._rows(), tokens)

    def progress(self, job, text: str) -> bool:
        """See transitions.progress."""
        return transitions.progress.progress(self._rows(), job, text)

    def record_step(self, job, name: str, result: str, seconds: float, *, first: bool):
        """See transitions.step."""
        return transitions.step.record_step(
            self._rows(), job, name, result, seconds, first
        )

    def renew(self, token: UUID):
        """See transitions.renew."""
        return self.renew_all([token])[token]

    def renew_all(self, tokens: list[UUID]):
        """See transitions.renew."""
        return transitions.renew.renew(self._rows(), tokens)

    def settle(self, finished, *, with_writes: bool = False, recognise: bool = True):
        """See transitions.settle."""
        return transitions.settle.settle(self._rows(), finished, with_writes, recognise)

    def release(
        self, token: UUID, ids=None, death: str | None = None, *, alone: bool = False
    ) -> set[int]:
        """See transitions.release."""
        return transitions.release.release(self._rows(), token, ids, death, alone)

    def prune(self, *, queue: str | None = None, dry_run=False, after_step=None):
        """Remove finished jobs that the rules of retention keep no longer.

        `queue`: of this one alone. `dry_run`: only count them. `after_step`: called after
        every few hundred rows, each of which are removed in a transaction of their own; if
        it returns False, that was the last. Returns a Counter by status. The tasks have to
        be imported, or their own rules are not known.
        """
        return transitions.prune.prune(self._rows(), queue, dry_run, after_step)

    def _chosen(self):
        """Return the whole table's rows, and the ids of those in this queryset."""
        self._refuse_combined()
        rows = self._everything()
        mine = self if self.query.is_sliced else self.order_by()
        ids = mine.using(rows.db).values_list("pk", flat=True)
        return rows, sorted(set(ids))

    def _refuse_combined(self) -> None:
        if self.query.combinator:
            raise TypeError(
                f"This can't be asked of a queryset made by {self.query.combinator}(). Make "
                "it with filter() and |, & or ~Q, or choose the jobs by pk__in=[...]."
            )

    def _everything(self):
        """Return the whole table's rows, where they are written."""
        return type(self)(self.model, using=self._db)._rows()  # type: ignore[attr-defined]

    # So that a template can't call what it is handed.
    for _verb in (
        dispatch,
        adispatch,
        dispatch_many,
        adispatch_many,
        cancel,
        acancel,
        retry,
        aretry,
        wait,
        await_all,
        claim,
        claim_job,
        progress,
        record_step,
        renew,
        renew_all,
        settle,
        release,
        prune,
    ):
        _verb.alters_data = True  # type: ignore[union-attr]
    del _verb
