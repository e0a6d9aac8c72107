"""What a dispatch checks before it goes to the database, and what it makes of it."""

import datetime as dt
import uuid
from decimal import Decimal

import pytest
from django.utils.translation import gettext_lazy

from django_leasequeue import Dedup, JobSpec
from django_leasequeue.exceptions import UndiscoverableTask, UnknownTask
from django_leasequeue.specs import prepare
from tests.models import Effect
from tests.road import toy
from tests.tasks import add

NAIVE = dt.datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - what a user may pass


def take(value=None, *more, **named):
    """Takes anything."""


def prepared(*args, **options):
    with toy(take, name="taker") as made:
        return prepare(JobSpec(made, args, **options))


def refused(kind, *args, **options):
    with pytest.raises(kind) as caught:
        prepared(*args, **options)
    return str(caught.value)


def test_defaults():
    """Without options a job is of its task's queue, due now, and runs once."""
    found = prepare(JobSpec(add, [1, 2]))
    assert found.values == {
        "task": "tests.tasks.add",
        "queue": "default",
        "args": [1, 2],
        "kwargs": {},
        "meta": {},
        "priority": 0,
        "max_attempts": 1,
        "group": None,
        "concurrency_key": None,
        "concurrency_limit": None,
    }
    assert (found.delay, found.run_at) == (dt.timedelta(0), None)
    assert found.dedup is found.key is None


def test_options_win_over_the_task():
    """What the dispatch names comes before the task, the task before the settings."""
    with toy(take, name="taker", queue="mail", priority=5, max_attempts=3) as made:
        own = prepare(JobSpec(made)).values
        given = prepare(JobSpec(made, queue="slow", priority=0, max_attempts=1)).values
    assert (own["queue"], own["priority"], own["max_attempts"]) == ("mail", 5, 3)
    assert (given["queue"], given["priority"], given["max_attempts"]) == ("slow", 0, 1)


def test_max_attempts_of_the_queue(settings):
    """Neither task nor dispatch say so: the queue the job goes to does."""
    settings.LEASEQUEUE = {"MAX_ATTEMPTS": 2, "QUEUES": {"mail": {"MAX_ATTEMPTS": 7}}}
    assert prepared().values["max_attempts"] == 2
    assert prepared(queue="mail").values["max_attempts"] == 7


def test_name_instead_of_task():
    """A registered name or alias will do; the row gets the name."""
    with toy(take, name="taker", aliases=("former",)):
        assert prepare(JobSpec("former")).values["task"] == "taker"
    with pytest.raises(UnknownTask):
        prepare(JobSpec("former"))


def test_a_function_is_no_task():
    """A function without the decorator is refused with what to do."""
    with pytest.raises(TypeError, match="Decorate the function"):
        prepare(JobSpec(take))


def test_an_option_among_the_arguments():
    """As others' delay=: the error says where it goes."""
    with pytest.raises(TypeError, match=r"'delay' is given to using\(\)"):
        prepare(JobSpec(add, [1, 2], {"delay": 3}))
    with pytest.raises(TypeError, match=r"'database' is given to using\(\)"):
        prepare(JobSpec(add, [1, 2], {"database": "other"}))
    with pytest.raises(TypeError, match="unexpected keyword argument 'dely'") as caught:
        prepare(JobSpec(add, [1, 2], {"dely": 3}))
    assert "using" not in str(caught.value)
    missing = pytest.raises(TypeError, match="required argument: 'name'")
    with toy(lambda name, **more: None, name="taker") as made, missing as caught:
        prepare(JobSpec(made, [], {"group": "a"}))
    assert "using" not in str(caught.value)


@pytest.mark.parametrize("wrong", [add, (add, [1, 2]), None])
def test_what_is_no_spec(wrong):
    """A batch of anything but specs is told so."""
    with pytest.raises(TypeError, match="is no JobSpec"):
        prepare(wrong)


def test_task_that_no_worker_imports():
    """It is refused at dispatch rather than left for workers that can't run it."""
    with toy(take, name="taker") as made:
        object.__setattr__(made.options, "module", "shop.views")
        with pytest.raises(UndiscoverableTask, match="TASK_MODULES"):
            prepare(JobSpec(made))


def test_arguments_are_bound():
    """A call that the function would refuse is refused now."""
    with pytest.raises(TypeError, match="missing a required argument: 'b'"):
        prepare(JobSpec(add, [1]))
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        prepare(JobSpec(add, [1, 2], {"c": 3}))


@pytest.mark.parametrize("args", ["ab", b"ab", 7, {1: 2}, {1}, iter([1])])
def test_args_are_a_list(args):
    """A text would be taken letter by letter, so only lists and tuples are args."""
    with pytest.raises(TypeError, match="args must be a list or tuple"):
        prepare(JobSpec(add, args))


@pytest.mark.parametrize("option", ["kwargs", "meta"])
def test_kwargs_and_meta_are_dicts(option):
    """Anything but a mapping is told with the option's name."""
    with pytest.raises(TypeError, match=f"{option} must be a dict, not list"):
        prepare(JobSpec(add, [1, 2], **{option: [1]}))


UNFIT = {
    "uuid": uuid.UUID(int=1),
    "date": dt.date(2026, 1, 2),
    "datetime": dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    "timedelta": dt.timedelta(1),
    "decimal": Decimal("1.5"),
    "lazy text": gettext_lazy("name"),
    "model": Effect(name="x"),
    "bytes": b"x",
    "set": {1},
    "object": object(),
}


@pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT)
def test_114_types_that_json_does_not_know(value):
    """Each is refused at dispatch with the argument's name, wherever it stands."""
    assert "'value'" in refused(TypeError, value)
    assert "args[1]" in refused(TypeError, 1, value)
    assert "kwargs.order" in refused(TypeError, kwargs={"order": value})
    deep = refused(TypeError, {"lines": [{"id": 1}, {"id": value}]})
    assert "'value'" in deep
    assert "lines[1].id" in deep


@pytest.mark.parametrize(
    "value", [{1: "a"}, {None: 1}, {(1, 2): 3}, (1, 2), [[(1,)]], {"a": {True: 1}}]
)
def test_115_what_would_come_back_changed(value):
    """Keys that are no text and tuples would reach the worker as something else."""
    refused(TypeError, value)
    refused(TypeError, kwargs={"order": value})


def test_115_one_form_everywhere():
    """What is stored is a copy: nobody who changes the object later changes the job."""
    order = {"lines": [1, 2]}
    found = prepared(order, kwargs={"note": order}, meta={"by": order})
    order["lines"].append(3)
    assert found.values["args"] == [{"lines": [1, 2]}]
    assert found.values["kwargs"] == {"note": {"lines": [1, 2]}}
    assert found.values["meta"] == {"by": {"lines": [1, 2]}}


def test_115_args_and_kwargs_themselves():
    """The outermost list may be a tuple, since a call's arguments are one."""
    assert prepare(JobSpec(add, (1, 2))).values["args"] == [1, 2]


@pytest.mark.parametrize("value", ["a\x00", ["a\x00"], {"a\x00": 1}, {"a": ["\x00"]}])
def test_116_nul_in_arguments(value):
    """PostgreSQL alone would refuse it, and late; so it is refused everywhere, now."""
    assert "NUL" in refused(ValueError, value)
    assert "NUL" in refused(ValueError, kwargs={"order": value})
    assert "NUL" in refused(ValueError, meta={"order": value})


@pytest.mark.parametrize("option", ["queue", "group", "dedup"])
def test_116_nul_in_names(option):
    """The same holds for everything else that is text."""
    assert "NUL" in refused(ValueError, **{option: "a\x00"})


@pytest.mark.parametrize(
    "value, word",
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("\ud83d", "surrogate"),
        (10**5000, "digits"),
    ],
    ids=["nan", "infinity", "surrogate", "huge number"],
)
def test_values_that_some_database_would_refuse(value, word):
    """They are JSON to Python and to nobody else."""
    assert word in refused(ValueError, [value]).lower()


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**309])
def test_integers_that_a_json_column_changes(number):
    """MySQL reads 2**64 back as a float; a job's arguments are text, and keep it."""
    told = refused(ValueError, meta={"a": [1, {"b": number}]})
    assert told.startswith("meta.a[1].b is an integer that not every database keeps")
    prepared(number, meta={"a": [2**64 - 1, -(2**63)]})


def test_too_long(settings):
    """Arguments above the limit are told with the limit, meta too."""
    settings.LEASEQUEUE = {"MAX_ARGUMENT_BYTES": 100}
    for options in ({"kwargs": {"a": "x" * 100}}, {"meta": {"a": "x" * 100}}):
        assert "100 bytes" in refused(ValueError, **options)
    prepared("x" * 96)


def test_size_counts_all_json():
    """A batch is cut by what it will send, so meta counts as arguments do."""
    small = prepared().size
    assert prepared("x" * 1000).size > small + 1000
    assert prepared(kwargs={"a": "x" * 1000}).size > small + 1000
    assert prepared(meta={"a": "x" * 1000}).size > small + 1000


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"queue": ""}, ValueError, "queue must not be empty"),
        ({"queue": "q" * 101}, ValueError, "at most 100"),
        ({"queue": 7}, TypeError, "queue must be a str"),
        ({"queue": "*"}, ValueError, "'*' is no queue"),
        ({"queue": "a,b"}, ValueError, "can't be 'a,b'"),
        ({"queue": " mail "}, ValueError, "can't be ' mail '"),
        ({"group": ""}, ValueError, "group must not be empty"),
        ({"group": "g" * 256}, ValueError, "at most 255"),
        ({"priority": 101}, ValueError, "between -100 and 100"),
        ({"priority": "5"}, TypeError, "priority must be an int"),
        ({"max_attempts": 0}, ValueError, "max_attempts must be at least 1"),
        ({"max_attempts": True}, TypeError, "max_attempts must be an int"),
        ({"dedup": ""}, ValueError, "dedup id must not be empty"),
        ({"dedup": 7}, TypeError, "dedup id must be a str"),
        ({"delay": -1}, ValueError, "delay must be at least 0"),
        ({"delay": "60"}, TypeError, "delay must be seconds"),
        ({"delay": float("nan")}, ValueError, "delay must be a finite"),
        ({"delay": 1e300}, ValueError, "a century"),
        ({"run_at": "2026-01-02"}, TypeError, "run_at must be a datetime"),
        ({"run_at": dt.date(2026, 1, 2)}, TypeError, "run_at must be a datetime"),
        ({"run_at": NAIVE}, ValueError, "no time zone"),
    ],
)
def test_options_that_can_not_be(options, kind, words):
    """Each wrong option is named, and nothing falls back to a default in silence."""
    assert words in refused(kind, **options)


def test_run_at_and_delay():
    """The two contradict each other, even when one of them is zero."""
    now = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    assert "not both" in refused(ValueError, run_at=now, delay=0)


@pytest.mark.parametrize("delay", [90, 90.0, dt.timedelta(seconds=90)])
def test_delay(delay):
    """Seconds and timedeltas alike; the database's clock adds them."""
    found = prepared(delay=delay)
    assert (found.delay, found.run_at) == (dt.timedelta(seconds=90), None)


def test_run_at_in_any_zone():
    """An instant is the same job time whatever zone it is told in."""
    zone = dt.timezone(dt.timedelta(hours=-3, minutes=-30))
    found = prepared(run_at=dt.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=zone))
    assert found.run_at == dt.datetime(2026, 1, 2, 6, 34, 5, 678, tzinfo=dt.UTC)
    assert found.run_at.tzinfo is dt.UTC


def test_naive_run_at_without_use_tz(settings):
    """Where USE_TZ is off a naive time is in TIME_ZONE, as everywhere in such a project."""
    settings.USE_TZ = False
    settings.TIME_ZONE = "America/St_Johns"
    found = prepared(run_at=NAIVE)
    assert found.run_at == dt.datetime(2026, 1, 2, 6, 34, 5, tzinfo=dt.UTC)


def test_run_at_outside_the_calendar():
    """A time whose UTC is after the year 9999 is told as such."""
    zone = dt.timezone(dt.timedelta(hours=-1))
    last = dt.datetime.max.replace(tzinfo=zone)
    assert "does not exist in UTC" in refused(ValueError, run_at=last)


def test_dedup_of_the_dispatch_comes_first():
    """An id given now replaces the task's own; a task's callable gets the arguments."""
    with toy(lambda a: None, name="taker", dedup=lambda a: f"order:{a}") as made:
        assert prepare(JobSpec(made, [7])).dedup == Dedup("order:7")
        assert prepare(JobSpec(made, [7], dedup="k")).key == ("default", "k")
