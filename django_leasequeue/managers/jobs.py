"""The adjectives of jobs, and what is asked of them."""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Self

from asgiref.sync import sync_to_async
from django.db import models

from django_leasequeue import db, registry, results
from django_leasequeue import why as reasons
from django_leasequeue.durations import Duration
from django_leasequeue.exceptions import WaitTimeout
from django_leasequeue.keywords import TaskLike
from django_leasequeue.managers.by_hand import ByHand
from django_leasequeue.managers.dispatching import Dispatching
from django_leasequeue.managers.marks import queryset_only
from django_leasequeue.managers.rows import VerbQuerySet
from django_leasequeue.managers.work import Work
from django_leasequeue.states import FINAL, Status

if TYPE_CHECKING:
    from django_leasequeue.models import Job


class JobQuerySet(Dispatching, ByHand, Work, VerbQuerySet["Job"]):
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

    @queryset_only
    def wait(self, timeout: Duration | None = None) -> dict[Status, int]:
        """Wait until none of these jobs waits or runs, and return their counts().

        `timeout`: seconds or a timedelta, for ever unless given. Asked anew at each look, so
        jobs that are added meanwhile are waited for; choose by what doesn't change, such as
        the group. Raises WaitTimeout, and WaitInTransaction unless all have ended already.
        """
        wait = self._wait(timeout)
        return self._waited(wait, wait.sync())

    @queryset_only
    async def await_all(self, timeout: Duration | None = None) -> dict[Status, int]:
        """See wait(). The event loop goes on meanwhile."""
        wait = self._wait(timeout)
        return await sync_to_async(self._waited)(wait, await wait.on_loop())

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

    # --- What the verbs ask

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


if TYPE_CHECKING:
    # What from_queryset() makes, in words that every type checker knows. A filter() of it is
    # one more; to be exact, a JobQuerySet.
    class JobManager(JobQuerySet, models.Manager["Job"]):  # type: ignore[misc]
        """What `Job.objects` is: the verbs, and every method of a JobQuerySet."""
else:
    JobManager = models.Manager.from_queryset(JobQuerySet, "JobManager")
