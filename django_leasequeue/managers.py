"""The verbs of the queue and the adjectives of its rows, on `Job.objects`.

Each verb is one line; the room it leads to is in `transitions`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, Unpack
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import models, router

from django_leasequeue import db, immediate, registry, results, slots, transitions
from django_leasequeue import why as reasons
from django_leasequeue.claimed import Claimed
from django_leasequeue.concurrency import Concurrency
from django_leasequeue.dedup import Dedup, DispatchOutcome
from django_leasequeue.durations import Duration
from django_leasequeue.exceptions import WaitTimeout
from django_leasequeue.keywords import DispatchKeywords, TaskLike
from django_leasequeue.outcomes import Outcome
from django_leasequeue.selection import Selection
from django_leasequeue.specs import JobSpec, prepare
from django_leasequeue.states import FINAL, Status

if TYPE_CHECKING:
    from django_leasequeue.models import Job

Row = TypeVar("Row", bound=models.Model)


class Dispatch(NamedTuple):
    """What a dispatch returns: the new job, or the one that holds the id, and what was done."""

    job: "Job"
    outcome: DispatchOutcome

    @property
    def added(self) -> bool:
        """Whether a new job was made."""
        return self.outcome == DispatchOutcome.ADDED


class VerbQuerySet(models.QuerySet[Row]):
    """A queryset with verbs for the whole table."""

    if TYPE_CHECKING:
        _db: str | None

    def _rows(self) -> models.QuerySet[Row]:
        if self.query.where or self.query.is_sliced:
            raise TypeError(
                "This verb is for the whole table and would ignore the filter. Call it on "
                f"{self.model.__name__}.objects or {self.model.__name__}.objects.using(alias)."
            )
        # Every read of a verb goes where it writes: a replica may not have the row yet.
        alias = self._db or router.db_for_write(self.model)
        return models.QuerySet(self.model, using=alias)


class JobQuerySet(VerbQuerySet["Job"]):
    """Jobs, and everything that is done with them. `using(alias)` chooses the database."""

    # --- Adjectives

    def pending(self) -> Self:
        """Jobs that wait: for their time, a worker or their next attempt."""
        return self.filter(status=Status.PENDING)

    def due(self) -> Self:
        """Pending jobs whose time has come."""
        return self.pending().filter(run_at__lte=db.DatabaseNow())

    def running(self) -> Self:
        """Jobs held by a worker, whether its lease still lasts or not."""
        return self.filter(status=Status.RUNNING)

    def expired(self) -> Self:
        """Running jobs whose lease is past: the next claim takes them."""
        return self.running().filter(processing_until__lte=db.DatabaseNow())

    def finished(self) -> Self:
        """Jobs that have succeeded, failed for good or been cancelled."""
        return self.filter(status__in=sorted(FINAL))

    def group(self, label: str) -> Self:
        """Jobs that were dispatched with this label."""
        return self.filter(group=label)

    def of_task(self, task: TaskLike) -> Self:
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

    def why(self, pk: int) -> list[reasons.Cause]:
        """Return why the job of this id is not running, or what it does instead.

        At least one Cause, with a `kind`, a `sentence` and `data`; what holds it back now
        comes first. Also of a job that is not there. A few statements, and no lock.
        """
        rows = self._rows()
        with db.saying_what_to_migrate(rows):
            return reasons.why(rows, pk)

    async def awhy(self, pk: int) -> list[reasons.Cause]:
        """See why()."""
        return await sync_to_async(self.why)(pk)

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
        task: TaskLike,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        group: str | None = None,
        max_attempts: int | None = None,
        meta: Mapping[str, Any] | None = None,
        dedup: str | Dedup | None = None,
        after_group: str | None = None,
        concurrency: str | Concurrency | None = None,
    ) -> Dispatch:
        """Store a job, or find the one that holds its dedup id. In the caller's transaction.

        `task`: a task, or its registered name. `args`, `kwargs`: JSON values that fit the
        function. `queue`, `priority` (-100 to 100, larger first), `max_attempts` (runs in
        all): the task's own unless given. `delay`: seconds or a timedelta from now, by the
        database's clock; or `run_at`: an aware datetime. `group`: a label. `meta`: a dict of
        the caller's own. `dedup`: an id or a Dedup. `after_group`: a group, of which no job
        may wait or run when this one starts. `concurrency`: a key, of which one job runs at
        a time, or a Concurrency, instead of the task's own.

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
            after_group,
            concurrency,
        )
        prepared = prepare(spec)
        rows = self._rows()
        with db.saying_what_to_migrate(rows):
            dispatch = Dispatch(*transitions.dispatch.dispatch(rows, prepared))
            if after_group is not None and dispatch.added:
                transitions.groups.start_on_commit(rows)
        if dispatch.added:
            immediate.dispatched([dispatch.job], rows.db)
        return dispatch

    async def adispatch(
        self,
        task: TaskLike,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[DispatchKeywords],
    ) -> Dispatch:
        """See dispatch()."""
        return await sync_to_async(self.dispatch)(task, args, kwargs, **options)

    def dispatch_many(self, specs: Iterable[JobSpec]) -> list[Dispatch]:
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
            if any(one.after_group is not None for one in prepared):
                transitions.groups.start_on_commit(rows)
        dispatches = [Dispatch(*pair) for pair in done]
        immediate.dispatched([one.job for one in dispatches if one.added], rows.db)
        return dispatches

    async def adispatch_many(self, specs: Iterable[JobSpec]) -> list[Dispatch]:
        """See dispatch_many()."""
        return await sync_to_async(self.dispatch_many)(specs)

    def cancel(self) -> transitions.cancel.Cancellation:
        """Cancel these jobs: pending ones at once, running ones as soon as they look.

        Returns a transitions.cancel.Cancellation: which were cancelled, asked, locked by
        somebody else, or had ended before. Only on a queryset, never on all jobs by mistake.
        """
        rows, ids = self._chosen()
        done = transitions.cancel.cancel(rows, ids)
        if done.cancelled:
            transitions.groups.start_on_commit(rows)
        return done

    cancel.queryset_only = True  # type: ignore[attr-defined]

    async def acancel(self) -> transitions.cancel.Cancellation:
        """See cancel()."""
        return await sync_to_async(self.cancel)()

    acancel.queryset_only = True  # type: ignore[attr-defined]

    def retry(self) -> transitions.retry.Retrial:
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

    async def aretry(self) -> transitions.retry.Retrial:
        """See retry()."""
        return await sync_to_async(self.retry)()

    aretry.queryset_only = True  # type: ignore[attr-defined]

    def run_now(self) -> transitions.run_now.MadeDue:
        """Make these jobs due, those that wait for their time or their next attempt.

        Returns a transitions.run_now.MadeDue: which were made due, and which not, and why.
        Nothing else that a job waits for is passed by: its queue's pause, others of its
        concurrency key, a group. Only on a queryset, never on all jobs by mistake.
        """
        return transitions.run_now.run_now(*self._chosen())

    run_now.queryset_only = True  # type: ignore[attr-defined]

    async def arun_now(self) -> transitions.run_now.MadeDue:
        """See run_now()."""
        return await sync_to_async(self.run_now)()

    arun_now.queryset_only = True  # type: ignore[attr-defined]

    def force_release(
        self, claims: Mapping[int, int] | None = None
    ) -> transitions.force_release.ForcedRelease:
        """Take these jobs from their workers, those that run: they wait again, due at once.

        For a worker that hangs. It is told by its next renewal, a third of the lease later at
        the most, and can write nothing any more; until it is told, the job may run twice at
        one time. Neither an attempt nor a recovery is counted.

        `claims`: `Job.claims` as it was seen, by id. A job that was claimed since then stays
        with whoever has it now; of a job that is not named any run is meant.

        Returns a transitions.force_release.ForcedRelease: which were released, which were
        cancelled, since that had been asked for, and which not, and why. Only on a queryset.
        """
        rows, ids = self._chosen()
        done = transitions.force_release.force_release(rows, ids, claims)
        if done.cancelled:
            transitions.groups.start_on_commit(rows)
        return done

    force_release.queryset_only = True  # type: ignore[attr-defined]

    async def aforce_release(
        self, claims: Mapping[int, int] | None = None
    ) -> transitions.force_release.ForcedRelease:
        """See force_release()."""
        return await sync_to_async(self.force_release)(claims)

    aforce_release.queryset_only = True  # type: ignore[attr-defined]

    def remove(self) -> transitions.remove.Removal:
        """Remove the rows of these jobs, those that wait or have ended, with their steps.

        Other than delete(), which is Django's and asks nobody: a job that runs stays, one
        that is being claimed stays or is never run, and so does one whose dedup window
        lasts. Returns a transitions.remove.Removal: which were removed, and which not, and
        why. Only on a queryset, never on all jobs by mistake.
        """
        rows, ids = self._chosen()
        done = transitions.remove.remove(rows, ids)
        if done.removed:
            transitions.groups.start_on_commit(rows)
        return done

    remove.queryset_only = True  # type: ignore[attr-defined]

    async def aremove(self) -> transitions.remove.Removal:
        """See remove()."""
        return await sync_to_async(self.remove)()

    aremove.queryset_only = True  # type: ignore[attr-defined]

    def claim(
        self,
        selection: Selection,
        limit: int,
        token: UUID,
        worker: str,
        *,
        expired: bool = True,
        since: float | None = None,
        alone: bool = False,
    ) -> transitions.claim.Claim:
        """See transitions.claim.claim."""
        return transitions.claim.claim(
            self._rows(), selection, limit, token, worker, expired, since, alone
        )

    def claim_job(self, pk: int, token: UUID, worker: str) -> Claimed | None:
        """See transitions.claim.claim_job."""
        return transitions.claim.claim_job(self._rows(), pk, token, worker)

    def call_forgotten(self, after: str = "") -> tuple[str, bool]:
        """See slots.look_for_forgotten."""
        return slots.look_for_forgotten(self._rows(), after)

    def prune_slots(self) -> int:
        """See slots.prune."""
        return slots.prune(self._rows())

    def cancel_requested(self, tokens: list[UUID]) -> dict[UUID, set[int]]:
        """See transitions.cancel.requested."""
        return transitions.cancel.requested(self._rows(), tokens)

    def progress(self, job: Claimed, text: str) -> bool:
        """See transitions.progress."""
        return transitions.progress.progress(self._rows(), job, text)

    def record_step(
        self, job: Claimed, name: str, result: str, seconds: float, *, first: bool
    ) -> bool:
        """See transitions.step."""
        return transitions.step.record_step(
            self._rows(), job, name, result, seconds, first
        )

    def renew(self, token: UUID) -> transitions.renew.Renewal:
        """See transitions.renew."""
        return self.renew_all([token])[token]

    def renew_all(self, tokens: list[UUID]) -> dict[UUID, transitions.renew.Renewal]:
        """See transitions.renew."""
        return transitions.renew.renew(self._rows(), tokens)

    def settle(
        self,
        finished: list[tuple[Claimed, Outcome]],
        *,
        with_writes: bool = False,
        recognise: bool = True,
    ) -> list[transitions.settle.Settled]:
        """See transitions.settle."""
        return transitions.settle.settle(self._rows(), finished, with_writes, recognise)

    def release(
        self,
        token: UUID,
        ids: Collection[int] | None = None,
        death: str | None = None,
        *,
        alone: bool = False,
        why: str | None = None,
    ) -> set[int]:
        """See transitions.release."""
        return transitions.release.release(self._rows(), token, ids, death, alone, why)

    def start_after_groups(
        self, seen: transitions.groups.Seen | None = None
    ) -> transitions.groups.Looked:
        """See transitions.groups."""
        return transitions.groups.start(self._rows(), seen)

    def prune(
        self,
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after_step: Callable[[], bool] | None = None,
    ) -> Counter[str]:
        """Remove finished jobs that the rules of retention keep no longer.

        `queue`: of this one alone. `dry_run`: only count them. `after_step`: called after
        every few hundred rows, each of which are removed in a transaction of their own; if
        it returns False, that was the last. Returns a Counter by status. The tasks have to
        be imported, or their own rules are not known.
        """
        return transitions.prune.prune(self._rows(), queue, dry_run, after_step)

    def _chosen(self) -> tuple[models.QuerySet["Job"], list[int]]:
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

    def _everything(self) -> models.QuerySet["Job"]:
        """Return the whole table's rows, where they are written."""
        return type(self)(self.model, using=self._db)._rows()

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
        run_now,
        arun_now,
        force_release,
        aforce_release,
        remove,
        aremove,
        wait,
        await_all,
        claim,
        claim_job,
        call_forgotten,
        prune_slots,
        progress,
        record_step,
        renew,
        renew_all,
        settle,
        release,
        start_after_groups,
        prune,
    ):
        _verb.alters_data = True  # type: ignore[union-attr]
    del _verb


if TYPE_CHECKING:
    # What from_queryset() makes, in words that every type checker knows. A filter() of it is
    # one more; to be exact, a JobQuerySet.
    class JobManager(JobQuerySet, models.Manager["Job"]):  # type: ignore[misc]
        """What `Job.objects` is: the verbs, and every method of a JobQuerySet."""
else:
    JobManager = models.Manager.from_queryset(JobQuerySet, "JobManager")
