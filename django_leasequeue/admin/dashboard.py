"""The dashboard: how all queues, workers and schedules are, on one page of the admin."""

import logging
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import Error, router
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _

from django_leasequeue.admin.dashboard_rows import Links, rows_of
from django_leasequeue.admin.listing import HAS_LIST_OF_CRUMBS, LookOnlyAdmin
from django_leasequeue.admin.origin import may
from django_leasequeue.models import Job, Queue
from django_leasequeue.monitoring import overview

logger = logging.getLogger("django_leasequeue.admin")

# Seconds between two refreshes of an open page.
EVERY = 5
# Seconds for which failures are counted, as the page's words have it.
WINDOW = 3600.0
# The page's name among the site's addresses.
NAME = "leasequeue_dashboard"


class DashboardAdmin(LookOnlyAdmin):
    """Jobs, with the dashboard, at an address of theirs: so it is in every site that has them."""

    def get_urls(self) -> list[URLPattern]:
        """See ModelAdmin."""
        page = self.admin_site.admin_view(self.dashboard)
        return [path("dashboard/", page, name=NAME), *super().get_urls()]

    def dashboard(self, request: HttpRequest) -> HttpResponse:
        """Show it; `?region` is only what changes. A POST pauses or resumes a queue."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            self._pause_or_resume(request)
            return HttpResponseRedirect(reverse(f"{self.admin_site.name}:{NAME}"))
        request.current_app = self.admin_site.name
        is_region = "region" in request.GET
        context = {} if is_region else self._frame(request)
        context["url"] = reverse(f"{self.admin_site.name}:{NAME}")
        status = HTTPStatus.OK
        try:
            context |= self._found(request)
        except Error:
            logger.exception("The dashboard can't be read.")
            status = HTTPStatus.SERVICE_UNAVAILABLE
        name = "dashboard_region" if is_region else "dashboard"
        template = f"admin/leasequeue/{name}.html"
        return TemplateResponse(request, template, context, status=status)

    def _frame(self, request: HttpRequest) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "title": _("Dashboard"),
            "opts": self.opts,
            "every": EVERY,
            "has_list_of_crumbs": HAS_LIST_OF_CRUMBS,
        }

    def _found(self, request: HttpRequest) -> dict[str, Any]:
        links = Links(self.admin_site, request)
        found = rows_of(overview(router.db_for_write(Job), WINDOW), links)
        found["may_pause"] = _may_pause(request)
        return found

    def _pause_or_resume(self, request: HttpRequest) -> None:
        if not _may_pause(request):
            raise PermissionDenied
        verbs = {
            "pause": (Queue.objects.pause, "Paused.", _("“%(name)s” is paused.")),
            "resume": (Queue.objects.resume, "Resumed.", _("“%(name)s” is resumed.")),
        }
        name = request.POST.get("queue", "")
        try:
            verb, logged, told = verbs[request.POST.get("verb", "")]
            changed = verb(name, by=request.user.get_username())
        except (KeyError, ValueError) as error:
            raise BadRequest("No queue can be changed so.") from error
        if changed:
            self.log_change(request, Queue(name=name), logged)
            self.message_user(request, told % {"name": name}, messages.SUCCESS)
        else:
            text = _("“%(name)s” was so already; nothing was changed.")
            self.message_user(request, text % {"name": name}, messages.WARNING)


def _may_pause(request: HttpRequest) -> bool:
    return may(request, "leasequeue.pause_queue")
