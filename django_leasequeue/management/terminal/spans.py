"""Spans of time as options of a command."""

import argparse
import re

from django_leasequeue.durations import seconds

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)")


def a_span(text: str) -> float:
    """Return "90", "90s", "15m", "2h", "7d" or "4w" in seconds; for argparse's `type`."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no span of time; write seconds, or 15m, 2h, 7d, 4w."
        )
    try:
        return seconds(float(match[1]) * _UNITS[match[2]], what="the span")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
