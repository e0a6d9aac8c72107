"""Schedules in the admin: made and changed here, or the code's to look at; and the buttons."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten_fieldsets
from django.db import router
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_leasequeue import transitions
from django_leasequeue.admin import shown, veil
from django_leasequeue.admin.firings import last_jobs, next_firings
from django_leasequeue.admin.listing import LookOnlyAdmin
from django_leasequeue.admin.origin import may, of_admin
from django_leasequeue.admin.rows import ScheduleRow
from django_leasequeue.admin.schedule_form import FIELDS, ScheduleForm
from django_leasequeue.models import Schedule
from django_leasequeue.models.schedule import ADMIN, ScheduleQuerySet
from django_leasequeue.origin import dispatched_by
from django_leasequeue.payloads.tracebacks import message_of
from django_leasequeue.schedules.declare import is_declared


def _times(*names: str) -> tuple[Any, ...]:
    return tuple(shown.column(Schedule, name, shown.local_time) for name in names)


class ScheduleAdmin(LookOnlyAdmin):
    """Schedules: those of the code can be paused and run, the others changed as well."""

    list_display = (
        "name",
        "state",
        "expression_text",
        "tz",
        "next_firing",
        *_times("last_tick"),
        "last",
    )
    listed_fields = (
        *FIELDS,
        "origin",
        "paused_at",
        "created_at",
        "since",
        "last_tick",
        "next_tick",
        "fired",
        "last_job",
        "problem",
    )
    list_display_links = ("name",)
    sortable_by = ("name",)
    search_fields = ("name", "task")
    form = ScheduleForm
    actions = ("pause", "resume", "run_now")

    fieldsets = (
        (None, {"fields": ("name", "task", ("kind", "expression", "tz"))}),
        (_("Jobs"), {"fields": ("args", "kwargs", "options")}),
        (
            _("Rules"),
            {
                "fields": (
                    ("missed", "cap", "overlap"),
                    ("starts_at", "ends_at"),
                    ("limit", "enabled"),
                )
            },
        ),
    )
    seen: Any = (
        (
            _("State"),
            {
                "fields": (
                    ("state", "origin", "fired"),
                    ("next_firing", *_times("last_tick")),
                    (*_times("paused_at"), "paused_by"),
                    (*_times("skipped_tick"), "skipped_why"),
                    ("problem", *_times("problem_at")),
                )
            },
        ),
        (_("Next firings"), {"fields": ("next_firings",)}),
        (_("Last jobs"), {"fields": ("last_jobs",)}),
    )

    # --- Who may

    def has_add_permission(self, request: HttpRequest) -> bool:
        """See ModelAdmin."""
        return admin.ModelAdmin.has_add_permission(self, request)

    def has_change_permission(
        self, request: HttpRequest, obj: Schedule | None = None
    ) -> bool:
        """Not what the code decides: it would say so again."""
        is_ours = obj is None or obj.origin == ADMIN
        return is_ours and admin.ModelAdmin.has_change_permission(self, request, obj)

    def has_delete_permission(
        self, request: HttpRequest, obj: Schedule | None = None
    ) -> bool:
        """Not what the code still has: it would come back."""
        is_ours = obj is None or not is_declared(obj)
        return is_ours and admin.ModelAdmin.has_delete_permission(self, request, obj)

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Whether the user may pause and resume."""
        return may(request, "leasequeue.pause_schedule")

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Whether the user may run schedules now."""
        return may(request, "leasequeue.run_schedule")

    def has_view_permission(
        self, request: HttpRequest, obj: Schedule | None = None
    ) -> bool:
        """Also whoever may do something with them."""
        return (
            super().has_view_permission(request, obj)
            or self.has_pause_permission(request)
            or self.has_run_permission(request)
        )

    def get_deleted_objects(
        self, objs: Sequence[Schedule] | QuerySet[Schedule], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Say of the code's schedules why they can't be deleted: see has_delete_permission()."""
        found = super().get_deleted_objects(objs, request)
        to_delete, counts, lacking, protected = found
        may_delete = admin.ModelAdmin.has_delete_permission(self, request)
        kept = [one for one in objs if not self.has_delete_permission(request, one)]
        if may_delete and kept:
            lacking = set(lacking) - {self.opts.verbose_name}
            text = _(
                "“%(name)s” comes from the code, which would make it again: pause it"
            )
            protected = [*protected, *(text % {"name": one.name} for one in kept)]
        return to_delete, counts, lacking, protected

    # --- To look

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """See ModelAdmin. Nobody finds out by a filter what they may not see."""
        if lookup.partition("__")[0] in veil.OF_SCHEDULE:
            return False
        return super().lookup_allowed(lookup, value, request)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> ScheduleRow | None:
        """Return the schedule, for whoever can't change it with what they may see."""
        schedule = super().get_object(request, object_id, from_field)
        if schedule is not None and not self.has_change_permission(request, schedule):
            may_see = may(request, "leasequeue.view_job_arguments")
            veil.draw_schedule(schedule, may_see)
        return schedule

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        """See ModelAdmin."""
        groups: Any = self.fieldsets
        return groups if obj is None else (*groups, *self.seen)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Schedule | None = None
    ) -> Any:
        """See ModelAdmin."""
        if obj is None:
            return ()
        return flatten_fieldsets(self.seen)

    @admin.display(description=_("when"))
    def expression_text(self, schedule: Schedule) -> str:
        """The cron line or the interval."""
        return shown.expression(schedule.kind, schedule.expression)

    @admin.display(description=_("state"))
    def state(self, schedule: Schedule) -> Any:
        """One word, see Schedule.state."""
        return shown.state_of_schedule(schedule.state)

    @admin.display(description=_("next firing"))
    def next_firing(self, schedule: ScheduleRow) -> str:
        """The next tick, in the viewer's zone; or what keeps it from making jobs."""
        if schedule.state == "broken":
            # The tick that it fails at is past.
            return Truncator(schedule.problem).chars(80)
        coming = transitions.schedule.next_tick(schedule, schedule.read_at)
        return shown.EMPTY if coming is None else shown.local_time(coming)

    @admin.display(description=_("last job"))
    def last(self, schedule: Schedule) -> str:
        """A link to it."""
        if schedule.last_job is None:
            return shown.EMPTY
        site = self.admin_site.name
        url = reverse(f"{site}:leasequeue_job_change", args=[schedule.last_job])
        return shown.link(url, schedule.last_job)

    @admin.display(description=_("next firings"))
    def next_firings(self, schedule: ScheduleRow) -> str:
        """A table of them."""
        return next_firings(schedule)

    @admin.display(description=_("last jobs"))
    def last_jobs(self, schedule: Schedule) -> str:
        """A table of them."""
        return last_jobs(schedule, self.admin_site.name)

    # --- To do

    def save_model(
        self, request: HttpRequest, obj: Schedule, form: Any, change: bool
    ) -> None:
        """Store what was typed."""
        form.store(obj)

    def response_add(
        self, request: HttpRequest, obj: Schedule, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the new schedule, with its next firings."""
        text = _("The schedule “%(name)s” is stored; its next firings are below.")
        self.message_user(request, text % {"name": obj.name}, messages.SUCCESS)
        site = self.admin_site.name
        url = reverse(f"{site}:leasequeue_schedule_change", args=[obj.pk])
        return HttpResponseRedirect(url)

    @admin.action(description=_("Pause the selected schedules"), permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Pause each that is not paused."""
        by = request.user.get_username()
        count = self._each(request, queryset, lambda one: one.pause(by=by), "Paused.")
        text = ngettext(
            "%(count)d schedule paused.", "%(count)d schedules paused.", count
        )
        self.message_user(request, text % {"count": count})

    @admin.action(description=_("Resume the selected schedules"), permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Resume each that is paused."""
        count = self._each(request, queryset, lambda one: one.resume(), "Resumed.")
        text = ngettext(
            "%(count)d schedule resumed.", "%(count)d schedules resumed.", count
        )
        self.message_user(request, text % {"count": count})

    @admin.action(description=_("Run the selected schedules now"), permissions=["run"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Make a job of each, and say which could not, and why."""
        for schedule in queryset:
            try:
                with dispatched_by(of_admin(request)):
                    [(job, outcome)] = _rows(schedule).run_now(
                        by=request.user.get_username()
                    )
            # Whatever is wrong with one concerns that one alone.
            except Exception as error:
                self._say(request, schedule, message_of(error), messages.ERROR)
                continue
            if outcome == "added":
                text = _("Job %(job)s is dispatched.") % {"job": job.pk}
                self._say(request, schedule, text, messages.SUCCESS)
                self.log_change(request, schedule, f"Run now: job {job.pk}.")
            else:
                text = _("Job %(job)s has not finished.") % {"job": job.pk}
                self._say(request, schedule, text, messages.WARNING)

    def _say(
        self, request: HttpRequest, schedule: Schedule, text: str, level: int
    ) -> None:
        # In quotes, or the page would write a name with a capital.
        self.message_user(request, f"“{schedule.name}”: {text}", level)

    def _each(
        self,
        request: HttpRequest,
        schedules: QuerySet[Schedule],
        verb: Callable[[ScheduleQuerySet], int],
        word: str,
    ) -> int:
        changed = [schedule for schedule in schedules if verb(_rows(schedule))]
        for schedule in changed:
            self.log_change(request, schedule, word)
        return len(changed)


def _rows(schedule: Schedule) -> ScheduleQuerySet:
    alias = router.db_for_write(Schedule)
    return Schedule.objects.using(alias).filter(pk=schedule.pk)
