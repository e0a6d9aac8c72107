"""The plainest form of an outcome, for a database that refuses the details."""

from dataclasses import replace

from django_leasequeue.outcomes import Failed, Outcome, RetryLater, Succeeded

_MESSAGE = "The details of this error could not be stored; the worker's log says why."


def plain(outcome: Outcome) -> Outcome | None:
    """Return the outcome without result or error texts; None if it is as plain already."""
    match outcome:
        case Succeeded(result) if result is not None:
            return Succeeded()
        case Failed(error) | RetryLater(error=error) if (
            error.get("message") != _MESSAGE
        ):
            return replace(
                outcome, error=error | {"message": _MESSAGE, "traceback": ""}
            )
        case _:
            return None
