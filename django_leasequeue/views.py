"""The queue's health and figures as JSON, for monitoring. See docs/operations.md.

Only for whoever may see jobs in the admin, or has the token that the project's URLs name.
"""

import logging
from http import HTTPStatus
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, router
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.crypto import constant_time_compare
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from django_leasequeue.models import Job
from django_leasequeue.monitoring import Limits, health, overview

logger = logging.getLogger("django_leasequeue.views")

# Characters that a token has at least: those of 96 random bits.
SHORTEST_TOKEN = 16


# No page to log in at would be of use to a probe: it is refused instead.
@method_decorator([login_not_required, never_cache], name="dispatch")
class MonitoringView(View):
    """A view for whoever may see jobs.

    `as_view(token=..., database=...)`: who sends `Authorization: Bearer TOKEN` may, too;
    the alias of the database that holds the jobs, as routed unless given.
    """

    http_method_names = ["get", "head", "options"]
    token: str | None = None
    database: str | None = None

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        """See View. Raises ImproperlyConfigured for a token that anybody could guess."""
        token = initkwargs.get("token", cls.token)
        if token is not None and (
            not isinstance(token, str) or len(token) < SHORTEST_TOKEN
        ):
            raise ImproperlyConfigured(
                f"The token of {cls.__name__} must be a text of at least {SHORTEST_TOKEN} "
                "characters, such as secrets.token_urlsafe() makes; None is no token."
            )
        return super().as_view(**initkwargs)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """See View."""
        if not (self._has_token(request) or _may_see_jobs(request)):
            return JsonResponse({"status": "refused"}, status=HTTPStatus.FORBIDDEN)
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer."""
        database = self.database or router.db_for_write(Job)
        try:
            answer, status = self.answer(database)
        except Error:
            logger.exception("The database %r could not be asked.", database)
            answer, status = {"status": "unknown"}, HTTPStatus.SERVICE_UNAVAILABLE
        return JsonResponse(answer, status=status)

    def answer(self, database: str) -> tuple[dict[str, Any], HTTPStatus]:
        """Return what to answer, and the status."""
        raise NotImplementedError

    def _has_token(self, request: HttpRequest) -> bool:
        if self.token is None:
            return False
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and constant_time_compare(token, self.token)


def _may_see_jobs(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return user is not None and user.has_perm("leasequeue.view_job")


class HealthView(MonitoringView):
    """200 if all is well, 503 if not, with the problems; `limits`: what is still healthy."""

    limits = Limits()

    def answer(self, database: str) -> tuple[dict[str, Any], HTTPStatus]:
        """See MonitoringView."""
        found = health(database, self.limits)
        bad = HTTPStatus.SERVICE_UNAVAILABLE
        return found.as_dict(), HTTPStatus.OK if found.is_well else bad


class MetricsView(MonitoringView):
    """What the dashboard shows; `window`: seconds of the failures."""

    window = 3600.0

    def answer(self, database: str) -> tuple[dict[str, Any], HTTPStatus]:
        """See MonitoringView."""
        return overview(database, self.window).as_dict(), HTTPStatus.OK
