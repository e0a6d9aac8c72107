"""Seconds and timedeltas, and what is neither."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_leasequeue.durations import LONGEST, seconds


@given(st.integers(0, int(LONGEST)) | st.floats(0, LONGEST))
def test_a_number_is_seconds(value):
    """Numbers come back as they are, as floats."""
    assert seconds(value, what="delay") == value
    assert type(seconds(value, what="delay")) is float


@given(st.timedeltas(timedelta(0), timedelta(seconds=LONGEST)))
def test_a_timedelta_is_its_seconds(value):
    """A timedelta counts in full."""
    assert seconds(value, what="delay") == value.total_seconds()


@pytest.mark.parametrize("value", [None, True, False, "5", b"5", [5], 5j])
def test_what_is_no_duration_is_a_type_error(value):
    """A bool is no second."""
    with pytest.raises(
        TypeError, match=r"^delay must be seconds .a number. or a timed"
    ):
        seconds(value, what="delay")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (float("nan"), "finite"),
        (float("-inf"), "finite"),
        (float("inf"), "finite"),
        (-1, "at least 2 seconds, not -1"),
        (timedelta(seconds=1), "at least 2 seconds, not 1"),
        (-(10**400), "at least 2 seconds"),
        (LONGEST + 1, "at most 3,155,760,000 seconds"),
        (10**400, "at most"),
        (timedelta.max, "at most"),
    ],
)
def test_a_duration_out_of_range_is_a_value_error(value, says):
    """Negative, endless and undefined durations are told by the name of the value."""
    with pytest.raises(ValueError, match=f"^delay must be .*{says}"):
        seconds(value, what="delay", minimum=2)
