"""The form of a schedule that is made in the admin: what it refuses, and how it is stored."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import router
from django.utils.translation import gettext_lazy as _

from django_leasequeue import firing, registry, transitions
from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import UndiscoverableTask, UnknownTask
from django_leasequeue.models import Schedule
from django_leasequeue.payloads.tracebacks import message_of
from django_leasequeue.recurrence import LONGEST_SCHEDULE, Recurrence
from django_leasequeue.recurrence.ticks import CRON
from django_leasequeue.schedules.declare import TIMING

# What a person decides, in the form's order.
FIELDS = (
    "name",
    "task",
    "kind",
    "expression",
    "tz",
    "args",
    "kwargs",
    "options",
    "missed",
    "cap",
    "overlap",
    "starts_at",
    "ends_at",
    "limit",
    "enabled",
)

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Schedule]
else:  # Django's own can't be subscripted
    _ModelForm = forms.ModelForm


class ScheduleForm(_ModelForm):
    """A schedule, checked as one of the code is when its task is imported."""

    # As it is typed: names compare exactly.
    name = forms.CharField(label=_("Name"), max_length=LONGEST_SCHEDULE, strip=False)
    args = forms.JSONField(label=_("Arguments"), required=False, initial=list)
    kwargs = forms.JSONField(label=_("Keyword arguments"), required=False, initial=dict)
    options = forms.JSONField(
        label=_("Options"),
        required=False,
        initial=dict,
        help_text=_(
            "Of its jobs: queue, priority, max_attempts, group, meta, dedup, concurrency, as in "
            '{"queue": "mail", "priority": 10}.'
        ),
    )

    class Meta:
        model = Schedule
        fields = FIELDS
        help_texts = {
            "expression": _(
                "Of a cron line: minute, hour, day of month, month and day of week, as in "
                "30 2 * * MON-FRI. Of an interval: its seconds."
            ),
            "tz": _("By whose clock a cron line goes, as in Europe/Paris."),
            "cap": _("How many missed ticks are run at the most, if all are."),
            "starts_at": _("Ticks are from here on; an interval is counted from it."),
            "ends_at": _("Ticks are before this."),
            "limit": _("How many jobs it makes in all."),
        }

    def clean_starts_at(self) -> Any:
        """Return the instant, in UTC."""
        return self._instant("starts_at")

    def clean_ends_at(self) -> Any:
        """Return the instant, in UTC."""
        return self._instant("ends_at")

    def _instant(self, name: str) -> Any:
        value = self.cleaned_data[name]
        field: Any = Schedule._meta.get_field(name)
        try:
            return None if value is None else field.to_python(value)
        except OverflowError as error:
            text = _("%(value)s does not exist in UTC.") % {"value": value}
            raise ValidationError(text) from error

    def clean(self) -> dict[str, Any]:
        """Refuse what could make no job, in the words of `cron`, `every` and dispatch."""
        given = super().clean() or self.cleaned_data
        for name, empty in (("args", []), ("kwargs", {}), ("options", {})):
            if name in given and given[name] is None:
                given[name] = empty
        if not self.errors:
            try:
                self._check(given)
            except (TypeError, ValueError) as error:
                raise ValidationError(message_of(error)) from error
            except (UnknownTask, UndiscoverableTask) as error:
                self.add_error("task", message_of(error))
        return given

    def _check(self, given: dict[str, Any]) -> None:
        if not isinstance(given["options"], dict):
            raise TypeError(_("Options must be a JSON object, as in {}."))
        values = {name: given[name] for name in FIELDS if name in given}
        schedule: Any = Schedule(**values)
        Recurrence(
            kind=schedule.kind,
            text=schedule.expression,
            tz=schedule.tz if schedule.kind == CRON else None,
            name=schedule.name,
            args=schedule.args,
            kwargs=schedule.kwargs,
            missed=schedule.missed,
            cap=schedule.cap,
            overlap=schedule.overlap,
            starts=schedule.starts_at,
            ends=schedule.ends_at,
            limit=schedule.limit,
        )
        # A web process need not have imported all tasks.
        given["task"] = schedule.task = registry.resolve(schedule.task).name
        firing.check(schedule)

    def validate_unique(self) -> None:
        """See ModelForm. Asked where schedules are written: a replica may be late."""
        rows = Schedule.objects.using(router.db_for_write(Schedule))
        named = rows.filter(name=self.instance.name).exclude(pk=self.instance.pk)
        if "name" in self.cleaned_data and named.exists():
            error = self.instance.unique_error_message(Schedule, ("name",))
            self.add_error("name", error)

    def store(self, schedule: Any) -> None:
        """Store what was typed, and nothing that workers write meanwhile."""
        rows = Schedule.objects.using(router.db_for_write(Schedule))
        values = {name: getattr(schedule, name) for name in FIELDS}
        if schedule.pk is None:
            now = DatabaseNow()
            made = rows.create(created_at=now, **values, **transitions.schedule.anew())
            schedule.pk = made.pk
        else:
            moved = {*TIMING, "enabled"}.intersection(self.changed_data)
            due = (
                transitions.schedule.again() if moved else {"next_tick": DatabaseNow()}
            )
            values |= {"problem": "", "problem_at": None, **due}
            rows.filter(pk=schedule.pk).update(**values)
        schedule.refresh_from_db(using=rows.db)
