"""Columns in a real database: times are UTC under every setting, JSON comes back as it went.

The tests' MariaDB runs at +05:00, so that a time taken from its session's clock shows.
"""

import datetime as dt
import time
import uuid
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.conf import settings as django_settings
from django.core import serializers
from django.db import connection, connections, transaction
from django.db.models import Case, ExpressionWrapper, F, Max, Min, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from django_leasequeue.db import DatabaseNow
from django_leasequeue.fields import BrokenJSON, UTCDateTimeField
from django_leasequeue.models import Job
from django_leasequeue.outcomes import RetryLater
from django_leasequeue.selection import Selection
from tests.factories import JobFactory
from tests.helpers import eventually
from tests.road import claim
from tests.tasks import add

ST_JOHNS = ZoneInfo("America/St_Johns")
# 01:30 of this day comes twice in St. John's, and 02:30 of the other day never.
REPEATED = [
    dt.datetime(2026, 11, 1, 4, 0, tzinfo=dt.UTC),
    dt.datetime(2026, 11, 1, 5, 0, tzinfo=dt.UTC),
]
SKIPPED = [
    dt.datetime(2026, 3, 8, 5, 29, 59, 999999, tzinfo=dt.UTC),
    dt.datetime(2026, 3, 8, 5, 30, tzinfo=dt.UTC),
    dt.datetime(2026, 3, 8, 6, 0, tzinfo=dt.UTC),
]
INSTANTS = [
    dt.datetime(1971, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
    *SKIPPED,
    dt.datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=dt.UTC),
    *REPEATED,
    dt.datetime(2100, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
]


def _aware(settings):
    settings.USE_TZ = True


def _naive(settings):
    settings.USE_TZ = False


def _zoned(settings):
    settings.USE_TZ = True
    _zone_of_connection("Asia/Kathmandu")


def _zone_of_connection(name):
    wrapper = connections["default"]
    wrapper.settings_dict["TIME_ZONE"] = name
    for cached in ("timezone", "timezone_name"):
        vars(wrapper).pop(cached, None)
    wrapper.ensure_timezone()


@pytest.fixture(params=[_aware, _naive, _zoned], ids=lambda choose: choose.__name__[1:])
def zone(request, settings):
    """The project's settings of time: the usual, USE_TZ off, and a zone for the database."""
    assert ST_JOHNS.key == settings.TIME_ZONE
    request.param(settings)
    yield request.param.__name__[1:]
    settings.USE_TZ = True
    _zone_of_connection(None)


@pytest.fixture
def jobs(zone):
    """A job for each of INSTANTS, in another order."""
    made = {at: JobFactory(run_at=at) for at in reversed(INSTANTS)}
    return [made[at] for at in INSTANTS]


def raw(column, job):
    """Return a time column's text as UTC, read without Django's help."""
    text = {
        "postgresql": f"TO_CHAR({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
        "mysql": f"CAST({column} AS CHAR)",
        # Not the column itself, which the driver would read as a datetime.
        "sqlite": f"{column} || ''",
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {text} FROM leasequeue_job WHERE id = %s", [job.pk])
        [value] = cursor.fetchone()
    return value


def database_now():
    now = ExpressionWrapper(DatabaseNow(), UTCDateTimeField())
    job = Job.objects.first() or JobFactory()
    return Job.objects.filter(pk=job.pk).values_list(now, flat=True)[0]


# --- Times: what is stored


def test_servers_clock_is_not_utc():
    """What the following tests prove on MariaDB they prove only if this holds."""
    if django_settings.DATABASE != "mariadb":
        pytest.skip("only the tests' MariaDB is hours off")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ROUND(TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW()) / 60)"
        )
        assert cursor.fetchone() == (5,)


def test_stored_as_utc(jobs):
    for at, job in zip(INSTANTS, jobs, strict=True):
        assert raw("run_at", job) == at.strftime("%Y-%m-%d %H:%M:%S.%f")


def test_read_as_aware_utc(jobs):
    """By an instance, by values, and after a save of the whole row."""
    for at, job in zip(INSTANTS, jobs, strict=True):
        job = Job.objects.get(pk=job.pk)
        assert job.run_at == at
        assert job.run_at.tzinfo is dt.UTC
        job.save()
        [value] = Job.objects.filter(pk=job.pk).values_list("run_at", flat=True)
        assert (value, value.tzinfo) == (at, dt.UTC)
    assert [job.run_at for job in Job.objects.order_by("run_at")] == INSTANTS


@pytest.mark.parametrize(
    "write", ["update", "save", "bulk_create", "bulk_update", "case"]
)
def test_every_way_of_writing(zone, write):
    """From another zone, in both passes of the repeated hour."""
    for at in REPEATED:
        local = at.astimezone(ST_JOHNS)
        job = JobFactory()
        rows = Job.objects.filter(pk=job.pk)
        if write == "update":
            rows.update(run_at=local)
        elif write == "save":
            job.run_at = local
            job.save(update_fields=["run_at"])
        elif write == "bulk_create":
            [job] = Job.objects.bulk_create(
                [Job(task="t", run_at=local, created_at=DatabaseNow())]
            )
            job = Job.objects.latest("id")
        elif write == "bulk_update":
            job.run_at = local
            Job.objects.bulk_update([job], ["run_at"])
        else:
            other = Value(at - dt.timedelta(days=1), output_field=UTCDateTimeField())
            this = Value(local, output_field=UTCDateTimeField())
            rows.update(run_at=Case(When(task="", then=other), default=this))
        assert raw("run_at", job) == at.strftime("%Y-%m-%d %H:%M:%S.%f")


def test_naive_times(settings):
    """Refused with time zones; without them local, whatever the server's clock says."""
    naive = REPEATED[1].astimezone(ST_JOHNS).replace(tzinfo=None)
    assert naive.fold == 1
    with pytest.raises(ValueError, match="has no time zone"), transaction.atomic():
        JobFactory(run_at=naive)
    with pytest.raises(ValueError, match="has no time zone"):
        Job.objects.filter(run_at__lt=naive)
    settings.USE_TZ = False
    job = JobFactory(run_at=naive)
    assert raw("run_at", job) == "2026-11-01 05:00:00.000000"
    assert Job.objects.get(run_at=naive) == job
    assert not Job.objects.filter(run_at=naive.replace(fold=0))
    settings.USE_TZ = True


# --- Times: what is found


def found(**lookup):
    return [job.run_at for job in Job.objects.filter(**lookup).order_by("run_at")]


def test_lookups(jobs):
    """Each comparison goes by the instant, from whatever zone it is written in."""
    for place, at in enumerate(INSTANTS):
        local = at.astimezone(ST_JOHNS)
        assert found(run_at=local) == [at]
        assert found(run_at__lt=local) == INSTANTS[:place]
        assert found(run_at__lte=local) == INSTANTS[: place + 1]
        assert found(run_at__gt=local) == INSTANTS[place + 1 :]
        assert found(run_at__gte=local) == INSTANTS[place:]
    first, second = (at.astimezone(ST_JOHNS) for at in REPEATED)
    assert found(run_at__in=[first, second]) == REPEATED
    assert found(run_at__range=(first, second)) == REPEATED
    assert found(run_at__isnull=True) == []


def test_columns_and_expressions(jobs):
    """Times of two columns, and those that the database computes, compare alike."""
    Job.objects.update(
        created_at=F("run_at"), started_at=Coalesce("started_at", "run_at")
    )
    assert Job.objects.filter(
        created_at=F("run_at"), started_at=F("run_at")
    ).count() == len(INSTANTS)
    ends = Job.objects.aggregate(Min("started_at"), Max("run_at"))
    assert list(ends.values()) == [INSTANTS[0], INSTANTS[-1]]
    assert {at.tzinfo for at in ends.values()} == {dt.UTC}
    # Times that the database makes are compared to times that Python wrote.
    assert (
        found(run_at__lte=DatabaseNow()) + found(run_at__gt=DatabaseNow()) == INSTANTS
    )
    assert found(run_at__lt=DatabaseNow(timedelta_to(INSTANTS[4]))) == INSTANTS[:4]


def timedelta_to(at):
    """Return the way from the database's time to a time, less a minute."""
    return at - database_now() - dt.timedelta(minutes=1)


# --- Times: the database's clock


@pytest.mark.parametrize(
    "delta",
    [
        0,
        1.5,
        -90,
        0.000001,
        -0.25,
        dt.timedelta(days=400, microseconds=1),
        dt.timedelta(days=-3650),
    ],
)
def test_now_and_a_while(zone, delta):
    """Exactly so much later, for SQLite to the millisecond."""
    field = UTCDateTimeField()
    job = JobFactory()
    [(now, then)] = Job.objects.filter(pk=job.pk).values_list(
        ExpressionWrapper(DatabaseNow(), field),
        ExpressionWrapper(DatabaseNow(delta), field),
    )
    expected = delta if isinstance(delta, dt.timedelta) else dt.timedelta(seconds=delta)
    exact = dt.timedelta(milliseconds=1 if connection.vendor == "sqlite" else 0)
    assert abs(then - now - expected) <= exact
    # The same expression as a column's value.
    Job.objects.filter(pk=job.pk).update(
        run_at=DatabaseNow(delta), created_at=DatabaseNow()
    )
    job = Job.objects.get(pk=job.pk)
    assert abs(job.run_at - job.created_at - expected) <= exact
    assert len(raw("run_at", job)) == len("2026-11-01 04:00:00.000000")


def test_now_is_utc(zone):
    """The tests' servers share this machine's clock; a zone taken for UTC is half hours off."""
    now = dt.datetime.now(dt.UTC)
    assert abs(database_now() - now) < dt.timedelta(minutes=15)
    job = JobFactory(run_at=DatabaseNow())
    assert raw("run_at", job)[:11] in {
        at.strftime("%Y-%m-%d ") for at in (now, dt.datetime.now(dt.UTC))
    }
    assert abs(job.run_at - now) < dt.timedelta(minutes=15)


def test_now_moves_on_within_a_transaction(zone):
    """A lease that begins late in a transaction must not begin at its start."""
    assert connection.in_atomic_block
    first = database_now()
    eventually(lambda: database_now() > first)


def test_137_delay_is_counted_by_the_database(zone, monkeypatch):
    """A web server whose clock is off delays jobs by as much as it is told."""
    for off in (-3600, 3600):
        real = time.time()
        monkeypatch.setattr(time, "time", lambda at=real + off: at)
        wrong = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=off)
        monkeypatch.setattr(timezone, "now", lambda at=wrong: at)
        job, _ = add.using(delay=30).dispatch(1, 2)
        job = Job.objects.get(pk=job.pk)
        assert job.run_at - job.created_at == dt.timedelta(seconds=30)
        assert claim() == []
        Job.objects.update(run_at=F("created_at"))
        assert [held.id for held in claim()] == [job.pk]
        monkeypatch.undo()


def test_125_a_job_from_end_to_end(zone, settings):
    """Due, leased, renewed, settled and due again, at the right times."""
    settings.LEASEQUEUE = {"LEASE": 60, "SAFETY_BUFFER": 6}
    due, _ = add.dispatch(1, 2)
    add.using(delay=3600).dispatch(1, 2)
    add.using(run_at=database_now() + dt.timedelta(hours=1)).dispatch(1, 2)
    [held] = claim()
    assert held.id == due.pk
    job = Job.objects.get(pk=due.pk)
    lease = job.processing_until - job.last_attempted_at
    # Where the row is read first and then changed, it begins with the change.
    assert 60 <= lease.total_seconds() < 72
    assert held.claimed_at == job.started_at == job.last_attempted_at
    assert Job.objects.renew(held.token).renewed == {due.pk}
    assert not Job.objects.expired()
    [settled] = Job.objects.settle([(held, RetryLater(dt.timedelta(hours=2), {}))])
    assert settled.verdict.value == "written"
    assert Job.objects.due().count() == 0
    wait = Job.objects.claim(Selection(), 1, uuid.uuid4(), "w").due_in
    assert 3000 < wait <= 3600


# --- Times: forms and dumps


class JobForm(forms.ModelForm):
    class Meta:
        model = Job
        fields = ["run_at"]
        # Minutes, as a person would type them.
        widgets = {"run_at": forms.DateTimeInput(format="%Y-%m-%d %H:%M")}


def test_form_shows_and_takes_local_time():
    """A form that is sent back as it was changes nothing, outside of the repeated hour."""
    at = dt.datetime(2026, 7, 1, 12, 0, tzinfo=dt.UTC)
    job = JobFactory(run_at=at)
    form = JobForm(instance=job)
    assert 'value="2026-07-01 09:30"' in str(form["run_at"])
    form = JobForm({"run_at": "2026-07-01 09:30"}, instance=job)
    assert form.save().run_at == at
    assert raw("run_at", job) == "2026-07-01 12:00:00.000000"


@pytest.mark.parametrize("form", ["json", "python"])
def test_dump_and_load(zone, form):
    """A row that is dumped, removed and loaded is the same, to the millisecond of JSON."""
    job = JobFactory(
        failed=True,
        keyed=True,
        run_at=REPEATED[1],
        args=[1, "é", {"b": None}],
        kwargs={"x": 1e22},
        meta={"by": "somebody"},
    )
    before = Job.objects.filter(pk=job.pk).values().get()
    dumped = serializers.serialize(form, Job.objects.filter(pk=job.pk))
    job.delete()
    for loaded in serializers.deserialize(form, dumped):
        loaded.save()
    after = Job.objects.filter(pk=before["id"]).values().get()
    for name, value in before.items():
        if isinstance(value, dt.datetime):
            assert abs(after[name] - value) < dt.timedelta(milliseconds=1), name
        else:
            assert after[name] == value, name


# --- JSON


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        "",
        "null",
        False,
        0,
        -0.0,
        0.1,
        1e22,
        2**70,
        -(2**63),
        {"b": 1, "a": {"d": [], "c": [None, True]}},
        "á\u0301 \N{GRINNING FACE} \\ ' \" % \n\r\t\x1f \u2028 </script>",
        ["%s", "{}", ":x", "\\u0000 is only text"],
    ],
    ids=repr,
)
def test_json_comes_back_as_it_went(value):
    """Value, type and the order of keys; found by what it is."""
    job = JobFactory(result=value, args=[value])
    job = Job.objects.get(pk=job.pk)
    for loaded in (job.result, job.args[0]):
        assert repr(loaded) == repr(value)
    assert Job.objects.get(result=value) == job
    assert raw_text("result", job).isascii()


def raw_text(column, job):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM leasequeue_job WHERE id = %s", [job.pk])
        return cursor.fetchone()[0]


def test_no_value_is_null():
    job = JobFactory(result=None)
    assert raw_text("result", job) is None
    assert Job.objects.get(result__isnull=True) == job


@pytest.mark.parametrize("text", ["", "{'a': 1}", "NaN", "[" * 100_000, "\\"])
def test_broken_json_is_that_rows_affair(text):
    """Other rows are read beside it, and saving it changes nothing."""
    whole = JobFactory()
    job = JobFactory()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE leasequeue_job SET errors = %s WHERE id = %s", [text, job.pk]
        )
    read = {row.pk: row for row in Job.objects.all()}
    assert read[whole.pk].errors == []
    assert type(read[job.pk].errors) is BrokenJSON
    assert read[job.pk].errors == text
    read[job.pk].save()
    assert raw_text("errors", job) == text


def test_text_of_many_bytes():
    """A result of the largest size that is allowed by default."""
    value = "x" * (1024 * 1024 - 2)
    job = JobFactory(result=value)
    assert Job.objects.get(pk=job.pk).result == value
