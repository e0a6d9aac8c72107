"""Arguments and results as JSON text: what is taken, what is refused."""

import collections
import dataclasses
import datetime
import enum
import fractions
import json
import pathlib
import sys
import uuid
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.db.models import TextChoices
from django.http import HttpRequest, QueryDict
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from django_leasequeue.payloads import dump, load, try_dump_result
from django_leasequeue.payloads.values import MAX_DEPTH, MAX_DIGITS

MIB = 2**20

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**MAX_DIGITS) + 1, 10**MAX_DIGITS - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=30,
)
# Beside good values, what some database or JSON itself would not keep as it is.
anything = st.recursive(
    scalars
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.dates()
    | st.uuids()
    | st.decimals()
    | st.fractions(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.frozensets(st.integers())
        | st.dictionaries(
            texts | st.integers() | st.none() | st.text("\0\ud800"), inner
        )
    ),
    max_leaves=30,
)


class Colour(TextChoices):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


class Metres(float):
    pass


class Name(str):
    pass


@dataclasses.dataclass
class Order:
    id: int


Point = collections.namedtuple("Point", "x y")


def same(one, other):
    """Whether two values are equal in type, order and sign of zero all the way down."""
    return repr(one) == repr(other) and type(one) is type(other)


@given(values)
def test_what_goes_in_comes_out(value):
    """A value that dump takes comes back equal, in types and order of keys too."""
    text = dump(value, what="value", max_bytes=MIB)
    assert text.isascii()
    assert same(load(text), value)


@given(anything)
def test_a_value_is_refused_or_comes_out_as_it_was(value):
    """Whatever is dispatched, it arrives unchanged or the dispatch is told why not."""
    try:
        text = dump(value, what="value", max_bytes=MIB)
    except (TypeError, ValueError) as error:
        assert str(error).startswith("value")
    else:
        assert same(load(text), value)


@given(values)
def test_the_text_is_the_shortest_and_what_load_gives_has_the_same(value):
    """One value has one text, so a job dispatched from a stored one is stored alike."""
    text = dump(value, what="value", max_bytes=MIB)
    assert text == json.dumps(value, separators=(",", ":"))
    assert dump(load(text), what="value", max_bytes=len(text)) == text


# Each with what the message has to say.
FOREIGN = [
    ((1, 2), "of type tuple: use list"),
    (Point(1, 2), "of type Point: use list"),
    ({1, 2}, "of type set: use sorted"),
    (frozenset(), "of type frozenset: use sorted"),
    ({}.keys(), "of type dict_keys: use sorted"),
    (b"abc", "of type bytes: use text"),
    (uuid.UUID(int=7), "of type UUID: use str"),
    (datetime.date(2026, 1, 2), "of type date: use value.isoformat"),
    (
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "of type datetime: use value.iso",
    ),
    (datetime.time(1, 2), "of type time: use value.isoformat"),
    (datetime.timedelta(1), "of type timedelta: use value.total_seconds"),
    (Decimal("1.10"), "of type Decimal: use str"),
    (fractions.Fraction(1, 3), "of type Fraction: use only None, bool, int"),
    (pathlib.Path("a"), "of type PosixPath: use str"),
    (gettext_lazy("Pending"), "a lazy text: use str"),
    (
        SimpleLazyObject(lambda: pytest.fail("looked at")),
        "SimpleLazyObject: use the id",
    ),
    (User(pk=1), "of type User: use its primary key"),
    (
        User.objects.all(),
        "of type UserQuerySet|of type QuerySet: use a list of primary",
    ),
    (HttpRequest(), "of type HttpRequest: use what the task needs"),
    (QueryDict("a=1"), "of type QueryDict: use dict"),
    (collections.OrderedDict(a=1), "of type OrderedDict: use dict"),
    (collections.UserList([1]), "of type UserList: use only None"),
    (Colour.RED, "of type Colour: use its .value"),
    (Size.LARGE, "of type Size: use its .value"),
    (Metres(1.5), "of type Metres: use float"),
    (Name("x"), "of type Name: use a plain str"),
    (Order(1), "of type Order: use dataclasses.asdict"),
    (ValueError("x"), "of type ValueError: use str"),
    (object(), "of type object: use only None, bool, int, float, str, list, and dict"),
    (object, "of type type: use only None"),
    (1j, "of type complex: use only None"),
    (print, "use only None"),
]


@pytest.mark.parametrize(
    # With ids of its own: pytest would look at the lazy object to make one.
    ("value", "says"),
    FOREIGN,
    ids=[str(number) for number in range(len(FOREIGN))],
)
@pytest.mark.parametrize(
    ("wrap", "where"),
    [
        (lambda value: value, "kwargs"),
        (lambda value: {"order": value}, "kwargs.order"),
        (lambda value: {"order": [1, 2, {"id": value}]}, "kwargs.order[2].id"),
        (lambda value: {"an order": {"é": value}}, "kwargs['an order'].é"),
    ],
)
def test_case_114_arguments_that_json_does_not_know(value, says, wrap, where):
    """The error names the place, the type, and what to use instead."""
    with pytest.raises(TypeError, match=says) as caught:
        dump(wrap(value), what="kwargs", max_bytes=MIB)
    assert str(caught.value).startswith(f"{where} is ")


def test_case_114_positional_arguments_are_named():
    """With the parameters' names at hand, a positional argument is named too."""
    names = ["order", "customer"]
    with pytest.raises(
        TypeError, match=r"^Argument 'customer' \(args\[1\]\) is of type"
    ):
        dump([1, Decimal(1)], what="args", max_bytes=MIB, names=names)
    with pytest.raises(
        TypeError, match=r"^Argument 'order' \(args\[0\]\[1\]\) is of type"
    ):
        dump([[1, b""]], what="args", max_bytes=MIB, names=names)
    with pytest.raises(TypeError, match=r"^args\[2\] is of type"):
        dump([1, 2, b""], what="args", max_bytes=MIB, names=names)


def test_the_first_fault_is_told():
    """Of two faults, the one that comes first in the call is named."""
    with pytest.raises(TypeError, match=r"^args\[0\]\.a is of type bytes"):
        dump([{"a": b"", "b": ()}, ()], what="args", max_bytes=MIB)


@pytest.mark.parametrize(
    "value",
    [{1: "a"}, {"a": {None: 1}}, {True: 1}, {(1, 2): 1}, {1.5: 1}, {Name("a"): 1}],
)
def test_case_115_keys_that_would_become_text_are_refused(value):
    """No key arrives as another type than it was dispatched with."""
    with pytest.raises(
        TypeError, match=r"has a key of type .*: the keys must be text\.$"
    ):
        dump(value, what="kwargs", max_bytes=MIB)


@pytest.mark.parametrize("value", [(1, 2), [1, (2,)], {"a": ({"b": ()},)}])
def test_case_115_tuples_that_would_become_lists_are_refused(value):
    """The task sees the form that the caller passed, or the dispatch is refused."""
    with pytest.raises(TypeError, match="JSON has no tuples"):
        dump(value, what="kwargs", max_bytes=MIB)


def test_case_115_rendered_templates_arrive_as_plain_text():
    """SafeString is the one exception: equal text arrives, as str."""
    value = {mark_safe("key"): [mark_safe("<p>é</p>")]}
    came = load(dump(value, what="kwargs", max_bytes=MIB))
    assert came == value
    assert type(came["key"][0]) is str
    assert type(next(iter(came))) is str
    with pytest.raises(ValueError, match="holds a NUL"):
        dump(SafeString("\0"), what="kwargs", max_bytes=MIB)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ("a\0b", "kwargs holds a NUL"),
        ({"a": [["\0"]]}, r"kwargs\.a\[0\]\[0\] holds a NUL"),
        ({"a": {"b\0": 1}}, r"kwargs\.a has the key 'b\\x00' with a NUL"),
        ("\ud83d", "kwargs holds a lone surrogate"),
        ("\ud83d\ude00", "kwargs holds a lone surrogate"),
        ({"é\udc80": 1}, r"kwargs has the key '\\xe9\\udc80' with a lone surrogate"),
    ],
)
def test_case_116_nul_and_lone_surrogates_are_refused(value, where):
    """What one database refuses is refused for all, with its place."""
    with pytest.raises(ValueError, match=f"^{where}"):
        dump(value, what="kwargs", max_bytes=MIB)


def test_case_118_four_byte_characters_are_stored_as_ascii():
    """No charset of a table or a connection can change what is stored."""
    value = {"🐎": "é 漢 😀"}
    text = dump(value, what="kwargs", max_bytes=MIB)
    assert text == r'{"\ud83d\udc0e":"\u00e9 \u6f22 \ud83d\ude00"}'
    assert load(text) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_none_are_refused(value):
    """NaN and the infinities have no JSON."""
    with pytest.raises(ValueError, match=r"^args\[0\] is -?(nan|inf), which JSON"):
        dump([value], what="args", max_bytes=MIB)


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_longer_than_a_worker_reads_are_refused(sign):
    """The limit is Python's default, whatever this process allows itself."""
    longest = sign * (10**MAX_DIGITS - 1)
    assert load(dump(longest, what="n", max_bytes=MIB)) == longest
    allowed = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        with pytest.raises(ValueError, match="n is a number of more than 4,300 digits"):
            dump(longest + sign, what="n", max_bytes=MIB)
    finally:
        sys.set_int_max_str_digits(allowed)


def test_numbers_longer_than_this_process_writes_are_refused():
    """A lower limit of this process is told as well."""
    allowed = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(ValueError, match=r"^n: Exceeds the limit \(640"):
            dump(10**1_000, what="n", max_bytes=MIB)
    finally:
        sys.set_int_max_str_digits(allowed)


@pytest.mark.parametrize("value", [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e16])
def test_floats_arrive_to_the_last_bit(value):
    """Floats are written so that the same float is read."""
    assert same(load(dump(value, what="x", max_bytes=MIB)), value)


def nested(levels, make):
    value = 1
    for _ in range(levels):
        value = make(value)
    return value


@pytest.mark.parametrize("make", [lambda v: [v], lambda v: {"a": v}])
def test_nesting_has_a_limit(make):
    """The deepest value allowed comes back; one level more, or 100,000, is told."""
    value = nested(MAX_DEPTH, make)
    assert same(load(dump(value, what="x", max_bytes=MIB)), value)
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(
            ValueError, match="is nested deeper than 100 levels"
        ) as caught:
            dump(nested(levels, make), what="x", max_bytes=MIB)
        assert len(str(caught.value)) < 300


def test_a_value_that_holds_itself_is_told():
    """A circle is no nesting."""
    circle = {"a": [1]}
    circle["a"].append(circle)
    with pytest.raises(ValueError, match=r"refers to itself\.$"):
        dump({"x": circle}, what="kwargs", max_bytes=MIB)
    shared = [1]
    assert dump([shared, shared], what="args", max_bytes=MIB) == "[[1],[1]]"


@pytest.mark.parametrize(
    "value",
    ["x" * 99, ["é" * 20], {"k" * 99: 1}, [12] * 40, nested(40, lambda v: [v, v])],
)
def test_size_has_a_limit(value):
    """Too long a text is told, before it is written out where it would be endless."""
    with pytest.raises(ValueError, match=r"^args is longer than the 100 bytes of JSON"):
        dump(value, what="args", max_bytes=100)


@given(values)
def test_the_limit_is_the_length_of_the_text(value):
    """A limit of exactly the text's bytes lets it pass, one less does not."""
    text = dump(value, what="x", max_bytes=MIB)
    assert dump(value, what="x", max_bytes=len(text)) == text
    with pytest.raises(ValueError, match="longer than"):
        dump(value, what="x", max_bytes=len(text) - 1)


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "NaN", "[Infinity]", "-Infinity", "[" * 100_000, "'a'"]
)
def test_broken_text_is_a_value_error(text):
    """Whatever a row holds, reading it raises one kind of error."""
    with pytest.raises(ValueError):
        load(text)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1},
        b"abc",
        User(pk=1),
        gettext_lazy("Pending"),
        "x" * 1_000_000,
        float("nan"),
        "a\0b",
        {"a\ud800": 1},
        (1, 2),
        nested(100_000, lambda v: [v]),
    ],
)
def test_case_087_a_result_that_can_not_be_stored_is_left_out(value):
    """The job has succeeded all the same: no text, and one sentence that says why."""
    text, warning = try_dump_result(value, 1_000)
    assert text is None
    assert warning.startswith("The return value is not kept: result")
    assert len(warning) < 400


def test_case_087_a_result_that_is_json_is_kept():
    """None is a result too."""
    assert try_dump_result({"sent": [1, None]}, 1_000) == ('{"sent":[1,null]}', None)
    assert try_dump_result(None, 4) == ("null", None)
