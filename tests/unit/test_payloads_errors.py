"""Exceptions as entries of a job's errors, the strangest included."""

import json
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_leasequeue.payloads import describe_error
from django_leasequeue.payloads.errors import MESSAGE, TRACEBACK

AT = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))


def described(exc):
    """Describe it, and check what holds for every description."""
    entry = describe_error(exc, attempt=2, worker="host:7", at=AT)
    assert set(entry) == {
        "exception_class",
        "message",
        "traceback",
        "attempt",
        "at",
        "worker",
    }
    for key, (chars, size) in {"message": MESSAGE, "traceback": TRACEBACK}.items():
        assert type(entry[key]) is str
        assert len(entry[key]) <= chars
        assert len(json.dumps(entry[key])) <= size
    assert len(json.dumps(entry)) < 45_000
    for text in (entry["exception_class"], entry["message"], entry["traceback"]):
        assert "\0" not in text
        text.encode("utf-8")
    assert json.loads(json.dumps(entry)) == entry
    return entry


def caught(function, *args):
    """Return what the function raises, with its traceback."""
    try:
        function(*args)
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def raise_it(exc, cause=None):
    raise exc from cause


def test_an_error_is_described():
    """Class, message, traceback, attempt, worker, and the time in UTC."""
    entry = described(caught(lambda: 1 / 0))
    assert entry["exception_class"] == "builtins.ZeroDivisionError"
    assert entry["message"] == "division by zero"
    assert entry["traceback"].startswith("Traceback (most recent call last):\n")
    assert entry["traceback"].endswith("builtins.ZeroDivisionError: division by zero\n")
    assert "in <lambda>" in entry["traceback"]
    assert "caught(lambda: 1 / 0)" in entry["traceback"]
    assert (entry["attempt"], entry["worker"]) == (2, "host:7")
    assert entry["at"] == "2026-03-29T00:30:00+00:00"
    assert datetime.fromisoformat(entry["at"]).astimezone(UTC) == AT


@given(st.text(st.characters()))
def test_any_message_is_described(message):
    """Whatever text an exception carries, its entry can be stored."""
    described(caught(raise_it, ValueError(message)))


def test_an_error_that_was_never_raised_is_described():
    """Without a traceback there is only the last line."""
    assert described(KeyError("x"))["traceback"] == "builtins.KeyError: 'x'\n"
    assert described(KeyError())["traceback"] == "builtins.KeyError\n"


def test_case_073_exception_that_can_not_be_pickled_or_rebuilt():
    """Only text is kept: two arguments, a lock inside, a class made in a function."""

    class Local(Exception):
        def __init__(self, code, lock):
            super().__init__(code)
            self.code, self.lock = code, lock

        def __str__(self):
            return f"code {self.code}"

        def __reduce__(self):
            raise TypeError("not to be pickled")

    entry = described(caught(raise_it, Local(7, threading.Lock())))
    assert entry["exception_class"] == f"{__name__}.{Local.__qualname__}"
    assert entry["message"] == "code 7"


def test_case_073_class_of_a_module_that_is_nowhere():
    """A class whose module can't be imported is described by its name."""
    gone = type("Gone", (Exception,), {"__module__": "job.only"})
    assert described(gone("x"))["exception_class"] == "job.only.Gone"


def test_case_076_message_of_twenty_megabytes():
    """The message is cut, and so is its copy in the traceback, with the frames kept."""
    entry = described(caught(raise_it, ValueError("INSERT " + "é" * 20_000_000)))
    assert entry["message"].startswith("INSERT é")
    assert "characters cut) …" in entry["message"]
    assert "in raise_it" in entry["traceback"]
    assert len(entry["traceback"]) < 3_000


def test_case_076_message_of_characters_that_take_many_bytes():
    """Short in characters is not short in bytes: both are bounded."""
    entry = described(caught(raise_it, ValueError("😀" * 2_000)))
    assert entry["message"].startswith("😀")
    assert "characters cut) …" in entry["message"]


def chain(length):
    error = None
    for number in range(length):
        error = caught(raise_it, ValueError(f"link {number:,}"), error)
    return error


@pytest.mark.parametrize("length", [200, 5_000])
def test_case_076_long_chain_of_causes(length):
    """The latest and the first causes stay, oldest first, and the gap is counted."""
    text = described(chain(length))["traceback"]
    places = [
        text.index("ValueError: link 0\n"),
        text.index("ValueError: link 2\n"),
        text.index(f"({length - 8:,} exceptions between these cut)"),
        text.index(f"ValueError: link {length - 5:,}\n"),
        text.index(f"ValueError: link {length - 1:,}\n"),
    ]
    assert places == sorted(places)
    assert "link 3\n" not in text
    assert text.count("was the direct cause of") == 7


def test_a_short_chain_is_whole():
    """Eight exceptions are shown as they are."""
    text = described(chain(8))["traceback"]
    assert [f"link {number}\n" in text for number in range(8)] == [True] * 8
    assert "cut" not in text


def descend(levels):
    if levels:
        return descend(levels - 1)
    return 1 / 0


def test_case_076_traceback_of_a_hundred_thousand_frames():
    """The way in and the place of the error stay, and the gap is counted."""
    allowed = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    try:
        error = caught(descend, 100_000)
    finally:
        sys.setrecursionlimit(allowed)
    text = described(error)["traceback"]
    assert "in caught" in text
    assert "(99,962 frames cut)" in text
    assert "return 1 / 0" in text
    assert text.endswith("ZeroDivisionError: division by zero\n")


def test_endless_recursion_is_described():
    """RecursionError is an error like any other."""
    entry = described(caught(descend, 10_000_000))
    assert entry["exception_class"] == "builtins.RecursionError"


def test_case_116_nul_and_lone_surrogates_are_replaced():
    """What a database refuses is replaced in every text of the entry."""
    odd = type("Odd", (Exception,), {"__module__": "a\0b"})
    odd.__qualname__ = "Odd\ud800"
    error = odd("one\0two\udfff")
    error.add_note("note\0")
    entry = described(error)
    assert entry["message"] == "one\ufffdtwo\ufffd"
    assert entry["exception_class"] == "a\ufffdb.Odd\ufffd"
    assert "note\ufffd" in entry["traceback"]
    worker = describe_error(error, attempt=1, worker="w\0", at=AT)["worker"]
    assert worker == "w\ufffd"


class Stop(BaseException):
    pass


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, Stop])
def test_exception_whose_str_raises(raised):
    """Not even a way out of the process gets out of __str__."""

    class Unprintable(Exception):
        def __str__(self):
            raise raised

        __repr__ = __str__

    entry = described(caught(raise_it, Unprintable()))
    assert entry["exception_class"].endswith("Unprintable")
    assert "its __str__ raised" in entry["message"]
    assert raised.__name__ in entry["message"]
    assert "in raise_it" in entry["traceback"]


@pytest.mark.parametrize("answer", [None, 7, b"bytes"])
def test_exception_whose_str_is_no_text(answer):
    """What is no text is told as such."""
    odd = type("Odd", (Exception,), {"__str__": lambda self: answer})
    assert "raised builtins.TypeError" in described(odd())["message"]


def test_exception_whose_str_is_a_subclass():
    """A text with a will of its own is taken as plain text."""

    class Text(str):
        __slots__ = ()

        def __len__(self):
            raise RuntimeError

        __getitem__ = __contains__ = __len__

    odd = type("Odd", (Exception,), {"__str__": lambda self: Text("fine")})
    assert described(odd())["message"] == "fine"


def test_exception_whose_attributes_raise():
    """The traceback is given up, the rest stays."""

    class Odd(Exception):
        @property
        def __cause__(self):
            raise SystemExit(1)

    entry = described(caught(raise_it, Odd("here")))
    assert entry["message"] == "here"
    assert entry["traceback"] == "(no traceback: reading it raised builtins.SystemExit)"


def test_class_that_hides_its_name():
    """A metaclass that answers with an error leaves Python's own name of the class."""

    class Meta(type):
        def __getattribute__(cls, name):
            raise RuntimeError

    odd = Meta("Odd", (Exception,), {})
    assert "Odd" in described(odd("x"))["exception_class"]


def test_context_is_shown_unless_suppressed():
    """As Python does: during handling of, and nothing after `raise ... from None`."""

    def second(suppress):
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError:
            if suppress:
                raise ValueError("second") from None
            raise ValueError("second")  # noqa: B904

    text = described(caught(second, False))["traceback"]
    assert text.index("ZeroDivisionError") < text.index("During handling of the above")
    assert text.index("During handling of the above") < text.index("ValueError: second")
    assert "ZeroDivisionError:" not in described(caught(second, True))["traceback"]


def test_circle_of_causes_ends():
    """Two exceptions that caused each other are shown once each."""
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    text = described(one)["traceback"]
    assert (text.count("ValueError: one"), text.count("ValueError: two")) == (1, 1)


def test_notes_are_shown_and_bounded():
    """Ten notes at most, and nothing of what is no list."""
    error = ValueError("x")
    for number in range(1_000):
        error.add_note(f"note {number}")
    text = described(error)["traceback"]
    assert "note 0\n" in text
    assert "note 9\n" in text
    assert "note 10\n" not in text
    error.__notes__ = 7
    assert described(error)["traceback"] == "builtins.ValueError: x\n"


def test_groups_are_shown_and_bounded():
    """The first members with their own tracebacks, the number of the others."""
    members = [caught(raise_it, ValueError(f"member {n}")) for n in range(1_000)]
    text = described(caught(raise_it, ExceptionGroup("many", members)))["traceback"]
    assert "builtins.ExceptionGroup: many (1000 sub-exceptions)" in text
    assert "  ---- 1 of 1000 ----\n  Traceback (most recent call last):\n" in text
    assert "builtins.ValueError: member 4\n" in text
    assert "member 5" not in text
    assert "(995 exceptions of the group cut)" in text


def test_nested_groups_are_bounded():
    """Groups inside groups end after two levels, however deep they go."""
    error = ValueError("inside")
    for level in range(5_000):
        error = ExceptionGroup(f"level {level}", [error])
    text = described(error)["traceback"]
    assert "ExceptionGroup: level 4999" in text
    assert "ExceptionGroup: level 4997" in text
    assert "level 4996" not in text
    assert "(1 exceptions of the group cut)" in text


def test_source_that_can_not_be_read():
    """A loader that fails when asked for the source costs the frames, nothing else."""

    class Loader:
        def get_source(self, name):
            raise RuntimeError

    scope = {"__name__": "odd", "__loader__": Loader()}
    exec(compile("def fail():\n    1 / 0\n", "/nowhere/odd.py", "exec"), scope)
    entry = described(caught(scope["fail"]))
    assert entry["message"] == "division by zero"
    assert "(the frames can't be shown: builtins.RuntimeError)" in entry["traceback"]
    assert entry["traceback"].endswith("ZeroDivisionError: division by zero\n")
