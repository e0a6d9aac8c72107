"""Schedules: when which task is run by itself, and how far that has come."""

from typing import TYPE_CHECKING, ClassVar

from django.db import models, router
from django.utils.translation import gettext_lazy as _

from django_leasequeue import db, firing, registry, transitions
from django_leasequeue.fields import ExactCharField, JSONTextField, UTCDateTimeField
from django_leasequeue.managers import Dispatch
from django_leasequeue.managers.marks import queryset_only
from django_leasequeue.models.job import Job
from django_leasequeue.recurrence import LONGEST_EXPRESSION, LONGEST_SCHEDULE, Ticks
from django_leasequeue.recurrence import make_ticks as _make_ticks
from django_leasequeue.recurrence.declared import ALLOW, CAP, SKIP
from django_leasequeue.recurrence.due import ALL, LATEST, NONE
from django_leasequeue.recurrence.ticks import CRON, EVERY
from django_leasequeue.task_options import LONGEST_NAME

CODE, ADMIN = "code", "admin"


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    """Schedules, and the verbs, each for those of the queryset."""

    @queryset_only
    def pause(self, *, by: str = "") -> int:
        """Let these make no jobs until they are resumed; `by`: who wants it so, for people.

        What passes meanwhile is not missed: it is not made up for. Returns how many were not
        paused before.
        """
        rows, ids = self._chosen()
        return transitions.schedule.pause(rows, ids, by)

    @queryset_only
    def resume(self) -> int:
        """Let these go on, from now. Returns how many were paused."""
        rows, ids = self._chosen()
        return transitions.schedule.resume(rows, ids)

    @queryset_only
    def run_now(self, *, by: str = "") -> list[Dispatch]:
        """Make a job of each of these now, beside its ticks, also of one that is paused.

        `by`: who wants it so, kept in the job's `meta["run_by"]`. Returns one Dispatch each,
        in order of their names: one whose last job has not finished answers with that,
        unless its overlap is "allow". Raises what a dispatch does, with nothing stored.
        """
        rows, ids = self._chosen()
        jobs: models.QuerySet[Job] = models.QuerySet(Job, using=rows.db)
        for task in rows.filter(pk__in=ids).values_list("task", flat=True):
            registry.resolve(task)
        return [Dispatch(*pair) for pair in firing.run_now(rows, ids, jobs, by)]

    if TYPE_CHECKING:
        _db: str | None

    def _chosen(self) -> tuple[models.QuerySet["Schedule"], list[int]]:
        alias = self._db or router.db_for_write(self.model)
        rows: models.QuerySet[Schedule] = models.QuerySet(self.model, using=alias)
        return rows, sorted(self.using(alias).values_list("pk", flat=True))


if TYPE_CHECKING:  # see managers.JobManager

    class ScheduleManager(ScheduleQuerySet, models.Manager["Schedule"]):  # type: ignore[misc]
        """What `Schedule.objects` is."""
else:
    ScheduleManager = models.Manager.from_queryset(ScheduleQuerySet, "ScheduleManager")


class Schedule(models.Model):
    """A task that is run by itself, and when.

    Declared on a task and stored by workers, or made in the admin. The ticks up to
    `last_tick` are dealt with, each by at most one job.
    """

    id = models.BigAutoField(primary_key=True)
    name = ExactCharField(_("name"), max_length=LONGEST_SCHEDULE, unique=True)
    # The registered name of a task.
    task = ExactCharField(_("task"), max_length=LONGEST_NAME)
    kind = ExactCharField(
        _("kind"),
        max_length=8,
        choices=[(CRON, _("cron line")), (EVERY, _("interval"))],
        default=CRON,
    )
    # A cron line, or seconds.
    expression = ExactCharField(_("expression"), max_length=LONGEST_EXPRESSION)
    tz = ExactCharField(_("time zone"), max_length=64, default="UTC")
    args = JSONTextField(_("arguments"), default=list, blank=True)
    kwargs = JSONTextField(_("keyword arguments"), default=dict, blank=True)
    # What its dispatches are given besides: see Recurrence.options.
    options = JSONTextField(_("options"), default=dict, blank=True)
    missed = ExactCharField(
        _("missed ticks"),
        max_length=8,
        choices=[
            (LATEST, _("run the latest")),
            (ALL, _("run all, up to a cap")),
            (NONE, _("run none")),
        ],
        default=LATEST,
    )
    cap = models.PositiveIntegerField(_("cap"), default=CAP)
    overlap = ExactCharField(
        _("overlap"),
        max_length=8,
        choices=[
            (SKIP, _("skip while the last job has not finished")),
            (ALLOW, _("allow")),
        ],
        default=SKIP,
    )
    # Ticks lie from the one on and before the other.
    starts_at = UTCDateTimeField(_("starts at"), null=True, blank=True)
    ends_at = UTCDateTimeField(_("ends at"), null=True, blank=True)
    # Jobs in all, runs by hand not counted.
    limit = models.PositiveIntegerField(_("limit"), null=True, blank=True)

    # Who decides the columns above: the code or the admin.
    origin = ExactCharField(_("origin"), max_length=8, default=ADMIN)
    # Of a schedule of the code: what it declares, in brief; what was declared before, newest
    # last; and when a worker last said that its code declares it so.
    digest = ExactCharField(_("digest"), max_length=64, default="", blank=True)
    former = JSONTextField(_("former digests"), default=list, blank=True)
    seen_at = UTCDateTimeField(_("seen at"), null=True)
    # And the module that does: only workers that look for tasks there, those of its own
    # project, may judge that it has left the code. Null until one has said so.
    module = ExactCharField(_("module"), max_length=255, null=True)
    # False of one that has left the code, and as the admin says.
    enabled = models.BooleanField(_("enabled"), default=True)
    paused_at = UTCDateTimeField(_("paused at"), null=True)
    paused_by = ExactCharField(_("paused by"), max_length=255, blank=True, default="")

    created_at = UTCDateTimeField(_("created at"))
    # Ticks count if they are later: moved by what changes their times, and by a resume.
    since = UTCDateTimeField(_("since"))
    last_tick = UTCDateTimeField(_("last tick"), null=True)
    # When a worker is to look: at the next tick, or at once after a change. Null if none is
    # to come: paused, disabled, ended.
    next_tick = UTCDateTimeField(_("next tick"), null=True)
    # Jobs made by ticks, and the last one, that of a run by hand included.
    fired = models.PositiveIntegerField(_("jobs made"), default=0)
    last_job = models.BigIntegerField(_("last job"), null=True)
    # Why the last tick that made no job did not, and which that was.
    skipped_tick = UTCDateTimeField(_("skipped tick"), null=True)
    skipped_why = ExactCharField(_("why"), max_length=500, blank=True, default="")
    # What keeps it from making jobs, until it is mended; "" if nothing does.
    problem = ExactCharField(_("problem"), max_length=1000, blank=True, default="")
    problem_at = UTCDateTimeField(_("problem since"), null=True)

    objects: ClassVar[ScheduleManager] = ScheduleManager()

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        ordering = ["name"]
        permissions = [
            ("pause_schedule", "Can pause and resume schedules"),
            ("run_schedule", "Can run schedules now"),
        ]
        indexes = [
            db.PartialIndex(
                name="leasequeue_next_tick",
                where={"next_tick__isnull": False},
                fields=["next_tick"],
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def ticks(self) -> Ticks:
        """All its ticks, whether they count or not. Raises ValueError for a bad expression."""
        return _make_ticks(
            self.kind,
            self.expression,
            self.tz,
            self.created_at.replace(microsecond=0),
            self.starts_at,
            self.ends_at,
        )

    @property
    def expression_text(self) -> str:
        """When it fires, as people read it."""
        if self.kind == EVERY:
            return f"every {self.expression} s"
        return self.expression

    @property
    def state(self) -> str:
        """One word: "disabled", "paused", "broken", "ended" or "active"."""
        if not self.enabled:
            return "disabled"
        if self.paused_at is not None:
            return "paused"
        if self.problem:
            return "broken"
        return "ended" if self.next_tick is None else "active"
