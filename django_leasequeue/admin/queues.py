"""Queues in the admin: which are or were paused, by whom; and the buttons for it."""

import contextlib

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import router
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_leasequeue import registry
from django_leasequeue.admin import shown
from django_leasequeue.admin.listing import LookOnlyAdmin
from django_leasequeue.models import Queue
from django_leasequeue.registry import LONGEST_QUEUE
from django_leasequeue.transitions.pause import checked
from django_leasequeue.worker.known_queues import unknown_queues


def _times(*names):
    return tuple(shown.column(Queue, name, shown.local_time) for name in names)


class PauseForm(forms.ModelForm):
    """Which queue to pause, and why."""

    # As it is typed: names compare exactly.
    name = forms.CharField(
        label=_("Name"), max_length=LONGEST_QUEUE, strip=False, required=True
    )

    class Meta:
        model = Queue
        fields = ("name", "reason")

    def clean_name(self):
        """Refuse what can't be a queue's name, with the words of the verb."""
        name = self.cleaned_data["name"]
        try:
            return checked(name)
        except ValueError as error:
            raise ValidationError(str(error)) from error

    def validate_unique(self):
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

    def has_pause_permission(self, request):
        """Whether the user may pause and resume."""
        return request.user.has_perm("leasequeue.pause_queue")

    def has_add_permission(self, request):
        """As to pause: to add a queue is to pause it."""
        return self.has_pause_permission(request)

    def has_view_permission(self, request, obj=None):
        """Also whoever may pause."""
        return super().has_view_permission(request, obj) or self.has_pause_permission(
            request
        )

    # --- To look

    @admin.display(description=_("state"))
    def state(self, queue):
        """Whether it is paused."""
        return _("paused") if queue.is_paused else _("runs")

    @admin.display(description=_("since"))
    def since(self, queue):
        """How long it has been in that state, by the database's clock."""
        began = queue.paused_at or queue.resumed_at
        return shown.EMPTY if began is None else shown.age(began, queue.read_at)

    # --- To pause and resume

    @admin.action(description=_("Pause the selected queues"), permissions=["pause"])
    def pause(self, request, queryset):
        """Pause each that is not paused."""
        count = self._each(request, queryset, Queue.objects.pause, "Paused.")
        done = ngettext("%(count)d queue paused.", "%(count)d queues paused.", count)
        self.message_user(request, done % {"count": count})

    @admin.action(description=_("Resume the selected queues"), permissions=["pause"])
    def resume(self, request, queryset):
        """Resume each that is paused."""
        count = self._each(request, queryset, Queue.objects.resume, "Resumed.")
        done = ngettext("%(count)d queue resumed.", "%(count)d queues resumed.", count)
        self.message_user(request, done % {"count": count})

    def _each(self, request, queues, verb, word):
        """Do it to each queue, and log those that it has changed; return how many."""
        by = request.user.get_username()
        changed = [queue for queue in queues if verb(queue.name, by=by)]
        for queue in changed:
            self.log_change(request, queue, word)
        return len(changed)

    # --- The page "Add", which pauses

    def get_fieldsets(self, request, obj=None):
        """See ModelAdmin."""
        if obj is None:
            return ((None, {"fields": ("name", "reason")}),)
        return self.fieldsets

    def get_readonly_fields(self, request, obj=None):
        """See ModelAdmin."""
        return () if obj is None else super().get_readonly_fields(request, obj)

    def save_model(self, request, obj, form, change):
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

    def log_addition(self, request, obj, message):
        """Nothing: see save_model()."""

    def response_add(self, request, obj, post_url_continue=None):
        """Go back to the list; what there is to say is said."""
        return self.response_post_save_add(request, obj)


def _may_be_misspelt(name):
    # A web process need not have imported all tasks, and may not be able to.
    with contextlib.suppress(Exception):
        registry.autodiscover()
        return bool(unknown_queues([name], router.db_for_write(Queue)))
    return False
