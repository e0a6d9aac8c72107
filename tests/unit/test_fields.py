"""Column types by themselves: what they take, what they refuse, what they store."""

import datetime as dt
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from django.db.models import F

from django_leasequeue.fields import (
    BrokenJSON,
    ExactCharField,
    JSONTextField,
    UTCDateTimeField,
)
from django_leasequeue.models import Job

# In St. John's, the settings' zone, 01:30 of this day came twice.
FIRST = dt.datetime(2026, 11, 1, 4, 0, tzinfo=dt.UTC)
SECOND = dt.datetime(2026, 11, 1, 5, 0, tzinfo=dt.UTC)
HALF_PAST_ONE = dt.datetime(2026, 11, 1, 1, 30)  # noqa: DTZ001

TIME = UTCDateTimeField()
JSON = JSONTextField()


# --- Times


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Pacific/Kiritimati"])
def test_aware_times_are_kept_as_utc(zone):
    given = dt.datetime(2026, 7, 1, 12, 0, 0, 123456, ZoneInfo(zone))
    kept = TIME.get_prep_value(given)
    assert kept == given
    assert kept.tzinfo is dt.UTC


def test_naive_times_are_refused_with_time_zones():
    """Which instant is meant can't be known; Django would guess and warn."""
    with pytest.raises(ValueError, match="has no time zone") as caught:
        TIME.get_prep_value(HALF_PAST_ONE)
    assert "2026, 11, 1, 1, 30" in str(caught.value)


def test_naive_times_are_local_without_time_zones(settings):
    """Both passes of the repeated hour can be said, as Python says them, by `fold`."""
    settings.USE_TZ = False
    assert TIME.get_prep_value(HALF_PAST_ONE) == FIRST
    assert TIME.get_prep_value(HALF_PAST_ONE.replace(fold=1)) == SECOND
    summer = dt.datetime(2026, 7, 1, 12)  # noqa: DTZ001
    assert TIME.get_prep_value(summer) == dt.datetime(2026, 7, 1, 14, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "text",
    ["2026-11-01T05:00:00Z", "2026-11-01 01:30:00-03:30", "2026-11-01T10:30+05:30"],
)
def test_texts_with_a_zone(text):
    """What dumpdata writes and a URL holds."""
    assert TIME.to_python(text) == SECOND


def test_texts_without_a_zone(settings):
    with pytest.raises(ValueError, match="has no time zone"):
        TIME.to_python("2026-11-01 01:30")
    settings.USE_TZ = False
    assert TIME.to_python("2026-11-01 01:30") == FIRST


@pytest.mark.parametrize("field", [TIME, JSON])
def test_nothing_and_expressions_pass(field):
    assert field.get_prep_value(None) is None
    expression = F("run_at")
    assert field.get_prep_value(expression) is expression
    assert field.from_db_value(None, None, None) is None


@pytest.mark.parametrize("vendor", ["sqlite", "mysql"])
@pytest.mark.parametrize("micro, digits", [(0, "000000"), (5, "000005")])
def test_stored_texts_are_of_one_length(vendor, micro, digits):
    """SQLite compares them as texts, so that none may leave its zeros out."""
    server = SimpleNamespace(vendor=vendor)
    stored = TIME.get_db_prep_value(FIRST.replace(microsecond=micro), server)
    assert stored == f"2026-11-01 04:00:00.{digits}"


def test_time_field_is_written_as_itself_in_migrations():
    _, path, args, kwargs = UTCDateTimeField("run at", null=True).deconstruct()
    assert path == "django_leasequeue.fields.UTCDateTimeField"
    assert (args, kwargs) == ([], {"verbose_name": "run at", "null": True})


# --- Texts


def test_exact_field_is_written_without_a_collation():
    """A migration made on one database is the same on every other."""
    _, path, args, kwargs = ExactCharField(max_length=510).deconstruct()
    assert path == "django_leasequeue.fields.ExactCharField"
    assert (args, kwargs) == ([], {"max_length": 510})


# --- JSON


@pytest.mark.parametrize(
    "value, text",
    [
        ([1, {"b": 1, "a": 2}], '[1,{"b":1,"a":2}]'),
        ("á \N{GRINNING FACE}\n", '"\\u00e1 \\ud83d\\ude00\\n"'),
        (2**70, "1180591620717411303424"),
        (1e22, "1e+22"),
        (False, "false"),
        ("", '""'),
    ],
)
def test_json_is_kept_as_ascii(value, text):
    assert JSON.get_prep_value(value) == text
    loaded = JSON.from_db_value(text, None, None)
    assert loaded == value
    assert type(loaded) is type(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
def test_json_has_no_such_numbers(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        JSON.get_prep_value(value)


@pytest.mark.parametrize("text", ["", "{", "NaN", "[1,Infinity]", "[" * 100_000])
def test_broken_json_stays_as_it_is(text):
    """It is read, marked as broken, and written back unchanged."""
    broken = JSON.from_db_value(text, None, None)
    assert type(broken) is BrokenJSON
    assert broken == text
    assert JSON.get_prep_value(broken) == text
    assert type(JSON.get_prep_value(broken)) is str


@pytest.mark.parametrize("value", [None, 5, "5", "null", [1], {"a": None}, False])
def test_json_survives_a_dump(value):
    """dumpdata's formats hold any JSON value, and loaddata hands back the same."""
    field = Job._meta.get_field("result")
    dumped = field.value_to_string(Job(result=value))
    assert field.to_python(dumped) == value
    assert type(field.to_python(dumped)) is type(value)
