"""Who is at work in the admin: for the rows that this changes, and what they may do."""

from typing import Any

from django.http import HttpRequest


def of_admin(request: HttpRequest) -> str:
    """Return the origin of what this user does here."""
    return f"admin: {request.user.get_username()}"


def may(request: HttpRequest, permission: str) -> bool:
    """Whether this user has a permission, written as in "leasequeue.cancel_job"."""
    user: Any = request.user  # of the project's own model
    return user.has_perm(permission)
