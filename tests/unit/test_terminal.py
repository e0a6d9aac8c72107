"""management.terminal: what jobs hold is shown, and nothing of it is obeyed."""

import argparse
import io
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.core.management.base import OutputWrapper

from django_leasequeue.management.terminal import Screen, a_span, as_json, safe

# Clears the screen, sets the title, pastes into the shell, hides, turns the direction.
EVIL = (
    "\x1b[2J\x1b]0;owned\x07\x1b]52;c;cm0=\x07\x9b8m\u202eabc\u2028[red]x[/] :boom:\r"
)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def drawn(stream, draw, **options):
    draw(Screen(OutputWrapper(stream), **options))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zoë 漢字 🎉", "Zoë 漢字 🎉"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc\rd\0", r"a\nb\tc\rd\x00"),
        ("\x7f\x9b", r"\x7f\x9b"),
        ("\u202e\u200b\u2028\ufeff", r"\u202e\u200b\u2028\ufeff"),
        ("\ud800", r"\ud800"),
        (7, "7"),
    ],
)
def test_safe(text, shown):
    assert safe(text) == shown


def test_safe_with_lines():
    assert safe("a\r\nb\tc\x1b\rd", lines=True) == "a\nb\tc\\x1b\\rd"


def test_safe_for_a_terminal_that_can_show_less():
    assert safe("Zoë 漢", "latin-1") == r"Zoë \u6f22"
    assert safe("Zoë", "ascii") == r"Zo\xeb"


@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_nothing_on_the_screen_is_obeyed(stream, color):
    """Of control characters there are line breaks, and colours of our own if at all."""

    def draw(screen):
        screen.table(["id", EVIL], [[EVIL, "failed"], [None, 3]], {EVIL})
        screen.facts([("error", f"{EVIL}\n{EVIL}")])
        screen.text(EVIL)

    text = drawn(stream(), draw, color=color)
    for style in ("\x1b[1m", "\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[1;31m"):
        text = text.replace(style, "")
    assert not [char for char in text if char < " " and char != "\n"]
    assert not {"\x1b", "\x9b", "\u202e"}.intersection(text)
    folded = "".join(text.split())
    assert "[red]x[/]:boom:" in folded


def test_a_table():
    rows = [[1, "failed", None], [22, "pending", "x" * 300]]
    text = drawn(
        io.StringIO(), lambda screen: screen.table(["id", "status", "q"], rows, "q")
    )
    assert text.splitlines() == [
        "id  status   q",
        "1   failed   -",
        f"22  pending  {'x' * 300}",
    ]


def test_colours_are_for_terminals_only():
    def draw(screen):
        screen.table(["status"], [["failed"]], ())

    assert "\x1b[31m" in drawn(Terminal(), draw)
    assert "\x1b" not in drawn(Terminal(), draw, color=False)
    assert "\x1b" not in drawn(io.StringIO(), draw)
    assert "\x1b[31m" in drawn(io.StringIO(), draw, color=True)


def test_json_is_ascii():
    value = {
        "text": EVIL,
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "span": timedelta(minutes=1),
        "token": UUID(int=7),
    }
    text = as_json(value)
    assert text.isascii() and not [c for c in text if c < " " and c != "\n"]
    assert json.loads(text) == {
        "text": EVIL,
        "at": "2026-01-02T00:00:00+00:00",
        "span": 60.0,
        "token": str(UUID(int=7)),
    }
    with pytest.raises(TypeError, match="object"):
        as_json(object())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        (" 2h ", 7200),
        ("7d", 604800),
        ("1w", 604800),
    ],
)
def test_spans(text, seconds):
    assert a_span(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-5", "1y", "1 h 2", "9999w", "1e3"])
def test_no_spans(text):
    with pytest.raises(argparse.ArgumentTypeError):
        a_span(text)
