"""An optional middleware for Django's MIDDLEWARE: jobs tell which request dispatched them."""

from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.utils.functional import LazyObject, empty

from django_leasequeue import origin


class DispatchedByMiddleware:
    """Let what a request dispatches tell its method, path and user: `job.dispatched_by`.

    Put it after AuthenticationMiddleware. The user is told where the view, or what came
    before it, has looked who it is: to find that out for a dispatch would cost a query.
    """

    sync_capable = async_capable = True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        """See Django's documentation of middleware."""
        if self.is_async:
            return self._acall(request)
        with origin.dispatched_by(lambda: of_request(request)):
            return self.get_response(request)

    async def _acall(self, request: Any) -> Any:
        with origin.dispatched_by(lambda: of_request(request)):
            return await self.get_response(request)


def of_request(request: Any) -> str:
    """Return a request in a few words: "ann: POST /orders/7/"."""
    where = f"{request.method} {request.path}"
    user = getattr(request, "user", None)
    is_known = (
        not isinstance(user, LazyObject) or user.__dict__["_wrapped"] is not empty
    )
    if user is None or not is_known or not user.is_authenticated:
        return where
    return f"{user.get_username()}: {where}"
