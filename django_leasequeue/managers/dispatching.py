"""The dispatch of jobs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from asgiref.sync import sync_to_async

from django_leasequeue import db, immediate, transitions
from django_leasequeue.concurrency import Concurrency
from django_leasequeue.dedup import Dedup, DispatchOutcome
from django_leasequeue.durations import Duration
from django_leasequeue.keywords import DispatchKeywords, TaskLike
from django_leasequeue.managers.marks import alters_data
from django_leasequeue.managers.rows import OfJobs
from django_leasequeue.specs import JobSpec, prepare

if TYPE_CHECKING:
    from django_leasequeue.models import Job


class Dispatch(NamedTuple):
    """What a dispatch returns: the new job, or the one that holds the id, and what was done."""

    job: "Job"
    outcome: DispatchOutcome

    @property
    def added(self) -> bool:
        """Whether a new job was made."""
        return self.outcome == DispatchOutcome.ADDED


class Dispatching(OfJobs):
    """How jobs are made."""

    @alters_data
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

    @alters_data
    async def adispatch(
        self,
        task: TaskLike,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[DispatchKeywords],
    ) -> Dispatch:
        """See dispatch()."""
        return await sync_to_async(self.dispatch)(task, args, kwargs, **options)

    @alters_data
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

    @alters_data
    async def adispatch_many(self, specs: Iterable[JobSpec]) -> list[Dispatch]:
        """See dispatch_many()."""
        return await sync_to_async(self.dispatch_many)(specs)
