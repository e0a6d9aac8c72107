"""The job table: every column, what it starts as and who changes it."""

from collections.abc import Iterable
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django.db import models, router
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_leasequeue import history, results
from django_leasequeue.concurrency import LONGEST_KEY
from django_leasequeue.db import PartialIndex, PartialUnique
from django_leasequeue.dedup import LONGEST_QUEUE, MAX_LENGTH
from django_leasequeue.durations import Duration
from django_leasequeue.fields import ExactCharField, JSONTextField, UTCDateTimeField
from django_leasequeue.history import Event
from django_leasequeue.managers import JobManager
from django_leasequeue.managers.marks import alters_data
from django_leasequeue.origin import LONGEST_ORIGIN
from django_leasequeue.specs import LONGEST_GROUP
from django_leasequeue.states import AWAITS_GROUP, AWAITS_SLOT, FINAL, Status
from django_leasequeue.task_options import LONGEST_NAME
from django_leasequeue.why import Cause


class Job(models.Model):
    """A task to be run, the lease of whoever runs it, and what became of it.

    Made by `Job.objects.dispatch` and changed only by the verbs of the manager. All times
    are the database's clock, in UTC.
    """

    # What each claim changes comes near the end, with the status between it and what each
    # settle changes: of an update within a page PostgreSQL logs the bytes from the first
    # that changed to the last.

    id = models.BigAutoField(primary_key=True)
    queue = ExactCharField(_("queue"), max_length=LONGEST_QUEUE)
    # The registered name; nothing is imported or called because a row names it.
    task = ExactCharField(_("task"), max_length=LONGEST_NAME)
    args = JSONTextField(_("arguments"), default=list)
    kwargs = JSONTextField(_("keyword arguments"), default=dict)
    # Arguments that a dispatch left for the next round of a running job; null without any.
    next_args = JSONTextField(_("next arguments"), null=True)
    next_kwargs = JSONTextField(_("next keyword arguments"), null=True)
    group = ExactCharField(_("group"), max_length=LONGEST_GROUP, null=True)
    # -100 to 100, larger first.
    priority = models.SmallIntegerField(_("priority"), default=0)
    # Not before this; moved by retries, snoozes and dispatches that postpone.
    run_at = UTCDateTimeField(_("run at"))
    max_attempts = models.PositiveIntegerField(_("max attempts"), default=1)
    # The caller's own, for filters; never read by a worker.
    meta = models.JSONField(_("meta"), default=dict, blank=True)
    created_at = UTCDateTimeField(_("created at"))

    # The id this job holds; moved to released_dedup_id by the dispatch that next wants it.
    dedup_id = ExactCharField(_("dedup id"), max_length=MAX_LENGTH, null=True)
    released_dedup_id = ExactCharField(
        _("released dedup id"), max_length=MAX_LENGTH, null=True
    )
    # The window: its length, and its end, which `extend` moves. Null without one.
    dedup_ttl = models.DurationField(_("dedup window"), null=True)
    dedup_until = UTCDateTimeField(_("dedup window ends"), null=True)
    # What else holds the id: "finished", "removed", or "" for the window alone.
    dedup_hold = ExactCharField(_("dedup hold"), max_length=8, default="", blank=True)
    # Set by a dispatch on a running job; whatever ends the run starts a new round instead.
    rerun = models.BooleanField(_("rerun"), default=False)
    # Dispatches that this job answered instead of a new one, and when last.
    suppressed = models.PositiveIntegerField(_("suppressed dispatches"), default=0)
    last_suppressed_at = UTCDateTimeField(_("last suppressed at"), null=True)

    # At most so many jobs of the key run at one time, as far as this one is concerned. Both
    # as it was dispatched; null without any. Who has a slot of the key: see slots.
    concurrency_key = ExactCharField(
        _("concurrency key"), max_length=LONGEST_KEY, null=True
    )
    concurrency_limit = models.PositiveIntegerField(_("concurrency limit"), null=True)
    # What else than its time a pending job waits for, 0 in every other status:
    # states.AWAITS_SLOT while no slot of its key is free, AWAITS_GROUP until the group is
    # done that it waits for: kept out of the claim index. No boolean, since SQLite uses a
    # partial index only where the query words its condition alike, and Django's words for a
    # boolean changed between 6.0 and 6.1.
    blocked = models.SmallIntegerField(_("blocked"), default=0)
    # The schedule that made it, and the tick it was made for.
    schedule = ExactCharField(_("schedule"), max_length=255, null=True)
    tick = UTCDateTimeField(_("tick"), null=True)

    # Starts at 1; each rerun, replacement of started work and retry by hand adds one.
    round = models.PositiveIntegerField(_("round"), default=1)
    # Workers lost by this round since it last recorded something.
    recoveries = models.PositiveIntegerField(_("recoveries"), default=0)
    # Those of them under which it ran alone, which is what MAX_RECOVERIES bounds.
    lost_alone = models.PositiveIntegerField(_("lost alone"), default=0)
    # 1 while recoveries are above 0: it is claimed to run alone in its process. A column of
    # its own because equality is all that every database's index serves.
    suspect = models.SmallIntegerField(_("suspect"), default=0)
    # Newest last, capped by MAX_ERRORS; kept across rounds.
    errors = JSONTextField(_("errors"), default=list)
    progress = JSONTextField(_("progress"), null=True)
    cancel_requested_at = UTCDateTimeField(_("cancel requested at"), null=True)

    # The last that claimed it; "" before the first claim.
    worker = models.CharField(_("worker"), max_length=255, default="", blank=True)
    # Every worker that claimed it, one a line, oldest first, cut to the newest.
    worker_ids = models.TextField(_("worker ids"), default="", blank=True)
    # Of the first claim ever, and of the latest.
    started_at = UTCDateTimeField(_("started at"), null=True)
    last_attempted_at = UTCDateTimeField(_("last attempted at"), null=True)
    # Claims ever made; with the id the fence for outside systems.
    claims = models.PositiveIntegerField(_("claims"), default=0)
    # The lease: both are set by claim, and null unless the job is running.
    processing_until = UTCDateTimeField(_("processing until"), null=True)
    processing_token = models.UUIDField(_("processing token"), null=True)
    status = ExactCharField(
        _("status"), max_length=16, choices=Status.choices, default=Status.PENDING
    )

    # Recorded outcomes of this round; a crash, a stop and a snooze add none.
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    # The token of the last lease that was given up or settled, by which a worker recognises
    # a write of its own whose answer was lost. Before the first claim: of the bulk insert.
    last_token = models.UUIDField(_("last token"), null=True)
    # Null until it has succeeded, and where the task's value is not JSON.
    result = JSONTextField(_("result"), null=True)
    # Set if and only if the status is final.
    finished_at = UTCDateTimeField(_("finished at"), null=True)

    # By whom or where, such as "job 41"; null where nobody said so, see origin.
    dispatched_by = models.CharField(
        _("dispatched by"), max_length=LONGEST_ORIGIN, null=True
    )
    # What happened to it by hand or by accident, see traces; null as long as nothing did.
    events = models.TextField(_("events"), null=True)

    objects: ClassVar[JobManager] = JobManager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        # Listed newest first; a claim has an order of its own.
        ordering = ["-id"]
        permissions = [
            ("cancel_job", "Can cancel jobs"),
            ("retry_job", "Can run jobs again"),
            ("run_job", "Can run delayed jobs now"),
            ("release_job", "Can take jobs from their workers"),
            ("view_job_arguments", "Can see what jobs were given and returned"),
        ]
        constraints = [
            # Without a condition: MySQL silently makes no conditional one.
            models.UniqueConstraint(
                fields=["queue", "dedup_id"], name="leasequeue_dedup"
            ),
            # A job of no schedule has no entry, and each claim and settle would write another.
            PartialUnique(
                name="leasequeue_tick",
                where={"schedule__isnull": False},
                fields=["schedule", "tick"],
            ),
            models.CheckConstraint(
                name="leasequeue_running_has_lease",
                condition=Q(
                    status=Status.RUNNING,
                    processing_token__isnull=False,
                    processing_until__isnull=False,
                )
                | Q(
                    status__in=sorted({*Status} - {Status.RUNNING}),
                    processing_token__isnull=True,
                    processing_until__isnull=True,
                ),
            ),
            models.CheckConstraint(
                name="leasequeue_final_has_end",
                condition=Q(status__in=sorted(FINAL), finished_at__isnull=False)
                | Q(status__in=sorted({*Status} - FINAL), finished_at__isnull=True),
            ),
        ]
        indexes = [
            # A claim reads one queue and priority from its head, see db.lanes.
            PartialIndex(
                name="leasequeue_claim",
                where={"status": Status.PENDING.value, "blocked": 0},
                fields=["suspect", "queue", "priority", "run_at", "id"],
            ),
            # Leases that are past, oldest first.
            PartialIndex(
                name="leasequeue_lease",
                where={"status": Status.RUNNING.value},
                fields=["processing_until", "id"],
            ),
            # What a worker holds by one token: renewals and the supervisor's release.
            PartialIndex(
                name="leasequeue_token",
                where={"status": Status.RUNNING.value},
                fields=["processing_token", "id"],
            ),
            # Jobs of a group, newest first or last. Without their status, so that claims and
            # settles leave it alone where the database has no partial indexes (MySQL).
            PartialIndex(
                name="leasequeue_group",
                where={"group__isnull": False},
                fields=["group", "id"],
            ),
            # Jobs that wait for a slot of their key, the next ones of each queue first. On
            # MySQL the column is 0 in all others, so that claims and settles leave it alone.
            PartialIndex(
                name="leasequeue_awaits_slot",
                where={"blocked": AWAITS_SLOT},
                fields=["concurrency_key", "queue", "-priority", "run_at", "id"],
            ),
            # Jobs with a key that are not finished: whether any may be claimed, and which a
            # dispatch supersedes. On MySQL finished ones are among them, for the same reason.
            PartialIndex(
                name="leasequeue_keyed",
                where={
                    "concurrency_key__isnull": False,
                    "status": Status.PENDING.value,
                },
                fields=["blocked", "concurrency_key", "id"],
                leading=False,
            ),
            # Finished jobs that one rule of retention is for, oldest first: see
            # transitions.prune. Entered once, by settle, where the database can leave the
            # others out; where it can't (MySQL) a settle takes up to a tenth longer for it.
            # With the status in it, so that a month of failures is not waded through for
            # what succeeded yesterday.
            PartialIndex(
                name="leasequeue_finished",
                where={"finished_at__isnull": False},
                fields=["status", "queue", "task", "finished_at", "id"],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} ({self.pk})"

    @property
    def is_final(self) -> bool:
        """Whether the job has succeeded, failed for good or been cancelled."""
        return self.status in FINAL

    @property
    def after_group(self) -> str | None:
        """The group that has to be done before this job starts; None if none has."""
        if self.blocked != AWAITS_GROUP:
            return None
        rows = self._rows().filter(pk=self.pk)
        return rows.values_list("group_wait__group", flat=True).first()

    @alters_data
    def cancel(self) -> bool:
        """Cancel this job, or ask for it if it runs: see `Job.objects.filter(...).cancel()`.

        Returns whether that was done: False if it had ended before, or its row is locked or
        gone. The instance is read anew, unless it is gone.
        """
        rows = self._rows()
        done = type(self).objects.using(rows.db).filter(pk=self.pk).cancel()
        if self.pk not in done.gone and rows.filter(pk=self.pk).exists():
            self.refresh_from_db(using=rows.db)
        return self.pk in done.cancelled | done.requested

    @alters_data
    async def acancel(self) -> bool:
        """See cancel()."""
        return await sync_to_async(self.cancel)()

    @alters_data
    def retry(self) -> None:
        """Run the finished job again, in a new round: see `Job.objects.filter(...).retry()`.

        Raises RetryRefused, with what stands in the way.
        """
        rows = self._rows()
        done = type(self).objects.using(rows.db).filter(pk=self.pk).retry()
        done.check(self.pk)
        self.refresh_from_db(using=rows.db)

    @alters_data
    async def aretry(self) -> None:
        """See retry()."""
        await sync_to_async(self.retry)()

    @alters_data
    def wait(self, timeout: Duration | None = None) -> Any:
        """Wait until the job has ended, and return its result; the instance is read anew.

        `timeout`: seconds or a timedelta, for ever unless given. Looks at the row, at first a
        hundred times a second, later twice. Raises WaitTimeout, JobFailed with the stored
        error, JobWasCancelled, JobGone if the row is not there, and WaitInTransaction unless
        it has ended already: a job can't run before the transaction that dispatched it ends.
        """
        rows = self._rows()
        wait = results.wait_for(self, rows, timeout)
        if not wait.sync():
            raise results.overdue(self, rows, wait.timeout)
        return results.result_of(self)

    @alters_data
    async def await_result(self, timeout: Duration | None = None) -> Any:
        """See wait(). The event loop goes on meanwhile; a cancelled wait leaves the job alone."""
        rows = self._rows()
        wait = results.wait_for(self, rows, timeout)
        if not await wait.on_loop():
            raise await sync_to_async(results.overdue)(self, rows, wait.timeout)
        return results.result_of(self)

    def why(self) -> list[Cause]:
        """Return why it is not running, or what it does: see `Job.objects.why`.

        By its row as it is now, not by this instance.
        """
        rows = self._rows()
        return type(self).objects.using(rows.db).why(self.pk)

    async def awhy(self) -> list[Cause]:
        """See why()."""
        return await sync_to_async(self.why)()

    def timeline(self) -> list[Event]:
        """Return everything that happened to it, in order of time, and what is to come.

        By its row as it is now, not by this instance: empty if it is gone. At most two
        statements, and no lock. See docs/operations.md.
        """
        return history.read(self._rows(), self.pk)

    async def atimeline(self) -> list[Event]:
        """See timeline()."""
        return await sync_to_async(self.timeline)()

    def refresh_from_db(
        self,
        using: str | None = None,
        fields: Iterable[str] | None = None,
        from_queryset: Any = None,
    ) -> None:
        """See Model; where it is written unless `using` is given: a replica may be late.

        A job that was dispatched just now reads columns that the database worked out so.
        """
        super().refresh_from_db(using or self._rows().db, fields, from_queryset)

    def _rows(self) -> models.QuerySet["Job"]:
        """Return the table's rows where they are written: a replica may be late."""
        alias = router.db_for_write(type(self), instance=self)
        return models.QuerySet(type(self), using=alias)
