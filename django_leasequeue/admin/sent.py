"""What the forms that ask send back: of which jobs, and of which of their runs."""

from collections.abc import Mapping

from django.core.exceptions import BadRequest

from django_leasequeue.admin.search import LARGEST_ID


def ids(text: str, most: int) -> list[int]:
    """Return the ids of jobs in their order. Raise BadRequest for what is none, or too many."""
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError as error:
        raise BadRequest("These are no ids of jobs.") from error
    if not 0 < found[0] <= found[-1] <= LARGEST_ID:
        raise BadRequest("These are no ids of jobs.")
    if len(found) > most:
        raise BadRequest(f"More than {most} jobs.")
    return found


def runs(claims: Mapping[int, int]) -> str:
    """Return what the form has to send back for `claims` to have it again."""
    return ",".join(f"{pk}:{number}" for pk, number in claims.items())


def claims(text: str) -> dict[int, int]:
    """Return the claims of the runs that were seen, by id. Raise BadRequest for what is none."""
    try:
        pairs = [part.split(":") for part in text.split(",") if part]
        return {int(pk): int(number) for pk, number in pairs}
    except ValueError as error:
        raise BadRequest("These are no runs of jobs.") from error
