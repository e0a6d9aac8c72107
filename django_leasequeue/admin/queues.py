"""Queues in the admin: which are or were paused, by whom; and the buttons for it."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_leasequeue import discovery
from django_leasequeue.admin import shown
from django_leasequeue.admin.listing import LookOnlyAdmin
from django_leasequeue.admin.origin import may
from django_leasequeue.admin.rows import QueueRow
from django_leasequeue.dedup import LONGEST_QUEUE
from django_leasequeue.models import Queue
from django_leasequeue.transitions.pause import checked
from django_leasequeue.worker.known_queues import unknown_queues

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Queue]
else:  # Django's own can't be subscripted
    _ModelForm = forms.ModelForm


def _times(*names: str) -> tuple[Any, ...]:
    return tuple(shown.column(Queue, name, shown.local_time) for name in names)


class PauseForm(_ModelForm):
    """Which queue to pause, and why."""

    # As it is typed: names compare exactly.
    name = forms.CharField(
        label=_("Name"), max_length=LONGEST_QUEUE, strip=False, required=True
    )

    class Meta:
        model = Queue
        fields = ("name", "reason")

    def clean_name(self) -> str:
        """Refuse what can't be a queue's name, with the words of the verb."""
        name = self.cleaned_data["name"]
        try:
            return checked(name)
        except ValueError as error:
            raise ValidationError(str(error)) from error

    def validate_unique(self) -> None:
        """Nothing: a queue that has a row is paused like any other."""


class QueueAdmin(LookOnlyAdmin):
    """Queues that were paused once. Adding one pauses it."""

    list_display = ("name", "state", "since", "paused_by", "reason", "resumed_by")
    listed_fields = (
        "name",
        "paused_at",
        "paused_by",
        "reason",
        "resumed_at",
        "resumed_by",
    )
    list_display_links = ("name",)
    sortable_by = ("name",)
    search_fields = ("name",)
    form = PauseForm
    actions = ("pause", "resume")

    fieldsets = (
        (None, {"fields": (("name", "state"),)}),
        (_("Paused"), {"fields": ((*_times("paused_at"), "paused_by"), "reason")}),
        (_("Resumed"), {"fields": ((*_times("resumed_at"), "resumed_by"),)}),
    )

    # --- Who may

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Whether the user may pause and resume."""
        return may(request, "leasequeue.pause_queue")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """As to pause: to add a queue is to pause it."""
        return self.has_pause_permission(request)

    def has_view_permission(
        self, request: HttpRequest, obj: Queue | None = None
    ) -> bool:
        """Also whoever may pause."""
        return super().has_view_permission(request, obj) or self.has_pause_permission(
            request
        )

    def has_delete_permission(
        self, request: HttpRequest, obj: Queue | None = None
    ) -> bool:
        """Of one that is not paused: to remove the row of another would resume it unseen."""
        if obj is None or obj.is_paused:
            return False
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def delete_model(self, request: HttpRequest, obj: Queue) -> None:
        """Remove the row, unless somebody has paused the queue meanwhile."""
        rows = Queue.objects.using(obj._state.db)
        rows.filter(pk=obj.pk, paused_at__isnull=True).delete()

    # --- To look

    @admin.display(description=_("state"))
    def state(self, queue: Queue) -> Any:
        """Whether it is paused."""
        return _("paused") if queue.is_paused else _("runs")

    @admin.display(description=_("since"))
    def since(self, queue: QueueRow) -> str:
        """How long it has been in that state, by the database's clock."""
        began = queue.paused_at or queue.resumed_at
        return shown.EMPTY if began is None else shown.age(began, queue.read_at)

    # --- To pause and resume

    @admin.action(description=_("Pause the selected queues"), permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Queue]) -> None:
        """Pause each that is not paused."""
        count = self._each(request, queryset, Queue.objects.pause, "Paused.")
        done = ngettext("%(count)d queue paused.", "%(count)d queues paused.", count)
        self.message_user(request, done % {"count": count})

    @admin.action(description=_("Resume the selected queues"), permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Queue]) -> None:
        """Resume each that is paused."""
        count = self._each(request, queryset, Queue.objects.resume, "Resumed.")
        done = ngettext("%(count)d queue resumed.", "%(count)d queues resumed.", count)
        self.message_user(request, done % {"count": count})

    def _each(
        self,
        request: HttpRequest,
        queues: QuerySet[Queue],
        verb: Callable[..., bool],
        word: str,
    ) -> int:
        """Do it to each queue, and log those that it has changed; return how many."""
        by = request.user.get_username()
        changed = [queue for queue in queues if verb(queue.name, by=by)]
        for queue in changed:
            self.log_change(request, queue, word)
        return len(changed)

    # --- The page "Add", which pauses

    def get_fieldsets(self, request: HttpRequest, obj: Queue | None = None) -> Any:
        """See ModelAdmin."""
        if obj is None:
            return ((None, {"fields": ("name", "reason")}),)
        return self.fieldsets

    def get_readonly_fields(
        self, request: HttpRequest, obj: Queue | None = None
    ) -> Any:
        """See ModelAdmin."""
        return () if obj is None else super().get_readonly_fields(request, obj)

    def save_model(
        self, request: HttpRequest, obj: Queue, form: Any, change: bool
    ) -> None:
        """Pause it, unless it is paused already, and say if its name may be misspelt."""
        by = request.user.get_username()
        if Queue.objects.pause(obj.name, by=by, reason=obj.reason):
            self.log_change(request, obj, "Paused.")
            text = _("The queue “%(name)s” is paused.")
            self.message_user(request, text % {"name": obj.name}, messages.SUCCESS)
        else:
            text = _("The queue “%(name)s” was paused already.")
            self.message_user(request, text % {"name": obj.name}, messages.WARNING)
        if _may_be_misspelt(obj.name):
            text = _("No task, no setting and no job names “%(name)s”. Misspelt?")
            self.message_user(request, text % {"name": obj.name}, messages.WARNING)

    def log_addition(self, request: HttpRequest, obj: Queue, message: Any) -> Any:
        """Nothing: see save_model()."""

    def response_add(
        self, request: HttpRequest, obj: Queue, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Go back to the list; what there is to say is said."""
        return self.response_post_save_add(request, obj)


def _may_be_misspelt(name: str) -> bool:
    # A web process need not have imported all tasks, and may not be able to.
    with contextlib.suppress(Exception):
        discovery.autodiscover()
        return bool(unknown_queues([name], router.db_for_write(Queue)))
    return False
