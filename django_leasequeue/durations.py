"""Durations as people give them: seconds as a number, or a timedelta."""

import math
from datetime import timedelta

Duration = int | float | timedelta

# A century: no job waits longer on purpose, and "now" plus this is a date that Python
# (to the year 9999) and every database can hold.
LONGEST = timedelta(days=36_525).total_seconds()


def seconds(value: Duration, *, what: str, minimum: float = 0) -> float:
    """Return a duration as float seconds.

    `what` names the value in messages ("delay", "LEASEQUEUE['LEASE']"). Raise TypeError
    if it is neither a number nor a timedelta, ValueError if it is not finite, below
    `minimum` seconds or above `LONGEST`.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    # True would pass for one second; it is a mistake.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(
            f"{what} must be seconds (a number) or a timedelta, "
            f"not {type(value).__name__}."
        )
    # Compared before it becomes a float: an int of 400 digits would overflow.
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} must be a finite number of seconds, not {value}.")
    if value < minimum:
        raise ValueError(
            f"{what} must be at least {minimum:g} seconds, "
            f"not {max(value, -LONGEST):.6g}."
        )
    if value > LONGEST:
        raise ValueError(f"{what} must be at most {LONGEST:,.0f} seconds (a century).")
    return float(value)
